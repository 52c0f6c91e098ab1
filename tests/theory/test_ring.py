"""Ring collectives against the closed form, and against the chunk-by-chunk recursion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunk_ring import end_of_ring
from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.templates import Templates
from prism_sim.training.collectives.ring import NO_ROUTE, Hop, Ring

GIB = 2**30
B = 50.0  # bytes a nanosecond: 400 Gbit/s


class Seen(list):
    """A collector that only remembers trains."""

    def see(self, trains):
        self.extend(trains)


def run_ring(rates, latency_ns, chunk_bytes, operation="all_reduce", routes=True):
    """Run one ring, hop i with a link of its own; returns (end [ns], trains)."""
    env = Clock()
    fabric = Fabric(env, np.array(rates, float), Templates())
    seen = Seen()
    hops = [Hop(i if routes else NO_ROUTE, (i,), latency_ns[i]) for i in range(len(rates))]
    done = env.event()
    Ring(hops, fabric, seen).start(operation, chunk_bytes, done)
    env.run(until=done)
    return env.now, seen


@pytest.mark.parametrize(
    ("n", "published_ns"),
    [(8, 37_608_964), (64, 42_530_584), (256, 43_801_901), (1024, 46_999_730)],
)
def test_equal_hops_take_the_published_time(n, published_ns):
    end, _ = run_ring([B] * n, [2_000.0] * n, GIB // n)
    assert end == pytest.approx(2 * (n - 1) * (GIB / (n * B) + 2_000), rel=1e-6)
    assert end == pytest.approx(published_ns, rel=1e-3)


@pytest.mark.parametrize("operation", ["reduce_scatter", "all_gather"])
def test_half_an_all_reduce_takes_half_its_time(operation):
    whole, _ = run_ring([B] * 8, [2_000.0] * 8, GIB // 8)
    half, _ = run_ring([B] * 8, [2_000.0] * 8, GIB // 8, operation)
    assert half == pytest.approx(whole / 2, rel=1e-6)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_coupled_form_is_the_chunk_recursion_up_to_one_round(data):
    n = data.draw(st.integers(2, 24))
    rates = data.draw(st.lists(st.floats(5, 50), min_size=n, max_size=n))
    latency = data.draw(st.lists(st.floats(0, 5_000), min_size=n, max_size=n))
    chunk = data.draw(st.integers(100_000, 10_000_000))
    end, _ = run_ring(rates, latency, chunk)
    own = [chunk / rate for rate in rates]
    exact = end_of_ring(own, latency, 2 * (n - 1))
    assert end <= exact + 2  # the transient only ever adds
    assert exact - end <= max(own) + max(latency) + sum(own) + sum(latency) - n * min(own)


def test_one_slow_hop_sets_the_pace_and_hides_latency():
    rates = [B, B, 10.0, B]
    end, _ = run_ring(rates, [2_000.0] * 4, 1_000_000)
    assert end == pytest.approx(6 * 100_000, rel=1e-6)
    exact = end_of_ring([1_000_000 / r for r in rates], [2_000.0] * 4, 6)
    assert end == pytest.approx(exact, rel=0.01)


def test_healthy_hops_burst_and_wait_while_the_slow_one_never_rests():
    _, trains = run_ring([B, B, 10.0, B], [2_000.0] * 4, 1_000_000)
    by_route = {train.route: train for train in trains}
    assert [by_route[i].burst_ns for i in range(4)] == [20_000, 20_000, 100_000, 20_000]
    assert [train.period_ns for train in trains] == [pytest.approx(100_000)] * 4
    assert {train.bursts * train.burst_bytes for train in trains} == {6 * 1_000_000}


def test_hops_inside_a_server_leave_no_train():
    _, trains = run_ring([B] * 4, [25.0] * 4, 1_000_000, routes=False)
    assert trains == []
