"""Rings alone and contended, in closed form."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from link_records import lateness_ns
from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.history import Spare
from prism_sim.cluster.network import Hop
from prism_sim.cluster.state import NOTES
from prism_sim.cluster.templates import HIDDEN, Templates
from prism_sim.collector.collecting import cut
from prism_sim.training.collectives.base import NEVER_NS
from prism_sim.training.collectives.ring import Ring, early_chunks

GIB = 2**30
B = 50.0  # bytes a nanosecond: 400 Gbit/s


def end_of_ring(own_ns: list[float], latency_ns: list[float], steps: int) -> float:
    """When the last chunk arrives, if hop i needs ``own_ns[i]`` a chunk and all start at 0.

    A hop sends its next chunk when it has sent the one before and received the one that the
    hop behind it sent one step earlier.
    """
    own, latency = np.array(own_ns, float), np.array(latency_ns, float)
    sent = np.zeros(len(own))
    arrived = np.zeros(len(own))
    for _ in range(steps):
        begin = np.maximum(sent, np.roll(arrived, 1))
        sent = begin + own
        arrived = sent + latency
    return float(arrived.max())


class TrainLog(list):
    """An observer that only remembers trains."""

    def observe(self, trains):
        self.append(trains)


def run_ring(rates, latency_ns, chunk_bytes, operation="all_reduce", routes=True, late_ns=()):
    """Run one ring, in which hop i has its own link; return (end [ns], observed trains).

    Ranks join at 0, or at ``late_ns``; the ring starts when the last one has.
    """
    env = Clock()
    fabric = Fabric(env, np.array(rates, float), Templates())
    trains_sent = TrainLog()
    hops = [Hop(i if routes else HIDDEN, (i,), latency_ns[i]) for i in range(len(rates))]
    done, n = env.event(), len(hops)
    ready_ns = list(late_ns) or [0] * n
    ring = Ring(hops, range(n), 1, SimpleNamespace(fabric=fabric, observer=trains_sent))
    env.call_at(max(ready_ns), lambda: ring.start(operation, n * chunk_bytes, ready_ns, done))
    env.run(until=done)
    return env.now, trains_sent


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


@pytest.mark.parametrize("missing", range(5))
def test_the_hops_behind_a_rank_that_never_joins_send_one_chunk_more_each(missing):
    """The recursion "chunk k after chunk k of the hop before" stops at the missing rank."""
    env, trains_sent = Clock(), TrainLog()
    fabric = Fabric(env, np.full(5, B), Templates())
    hops = [Hop(i, (i,), 1_000.0) for i in range(5)]
    ring = Ring(hops, range(5), 1, SimpleNamespace(fabric=fabric, observer=trains_sent, env=env))
    ready_ns = [NEVER_NS if rank == missing else 100 * rank for rank in range(5)]
    env.call_at(10**9, lambda: ring.abandon("all_reduce", 5 * 1_000_000, ready_ns))
    env.run()
    (trains,) = trains_sent
    assert dict(zip(trains["route"], trains["bursts"], strict=True)) == {
        (missing + behind) % 5: behind for behind in (1, 2, 3)
    }
    assert set(trains["burst_bytes"]) == {1_000_000}
    for route, start in zip(trains["route"].tolist(), trains["start_ns"], strict=True):
        assert start == max(ready_ns[route], ready_ns[(route + 1) % 5])  # when both ends are there


def test_traffic_long_after_the_chunks_does_not_delay_them():
    """A link stores few notes of its load; those of later do not hold for the time before."""
    env, trains_sent = Clock(), TrainLog()
    templates = Templates()
    fabric = Fabric(env, np.full(5, B), templates)
    hops = [Hop(i, (i,), 0.0) for i in range(5)]
    ring = Ring(hops, range(5), 1, SimpleNamespace(fabric=fabric, observer=trains_sent, env=env))
    other = templates.add_bundle([templates.add([1])])
    for number in range(100):
        at_ns = 10**9 + number * 10**6
        env.call_at(at_ns, lambda: fabric.transfer(other, 1_000, 0, env.event()))
    ready_ns = [NEVER_NS, 0, 0, 0, 0]
    env.call_at(4 * 10**9, lambda: ring.abandon("all_reduce", 5 * 1_000_000, ready_ns))
    env.run()
    (trains,) = trains_sent
    ends_ns = trains["start_ns"] + trains["bursts"] * trains["period_ns"]
    assert ends_ns.tolist() == pytest.approx([1e6 / B, 2e6 / B, 3e6 / B])


def test_nobody_sends_to_a_rank_that_never_joins_a_ring_of_two():
    env, trains_sent = Clock(), TrainLog()
    fabric = Fabric(env, np.full(2, B), Templates())
    network = SimpleNamespace(fabric=fabric, observer=trains_sent, env=env)
    ring = Ring([Hop(i, (i,), 0.0) for i in range(2)], range(2), 1, network)
    env.call_at(10**9, lambda: ring.abandon("all_reduce", 2_000_000, [0, NEVER_NS]))
    env.run()
    assert [len(trains) for trains in trains_sent] == [0]


@settings(max_examples=80)
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
    _, (trains_sent,) = run_ring([B, B, 10.0, B], [2_000.0] * 4, 1_000_000)
    assert trains_sent["route"].tolist() == [0, 1, 2, 3]
    assert trains_sent["burst_ns"].tolist() == [20_000, 20_000, 100_000, 20_000]
    assert trains_sent["period_ns"] == pytest.approx(100_000)
    assert (trains_sent["bursts"] * trains_sent["burst_bytes"]).tolist() == [6 * 1_000_000] * 4


def test_hops_behind_a_late_rank_begin_last():
    late_ns = [0, 0, 1_000_000, 0, 0]
    end, (trains_sent,) = run_ring([B] * 5, [0.0] * 5, 1_000_000, late_ns=late_ns)
    # Hop 3 has its first chunk to send; hop 4 also passes on what came from 3, and so on.
    hop = {route: trains_sent[trains_sent["route"] == route] for route in range(5)}
    assert [len(trains) for trains in hop.values()] == [2, 1, 1, 2, 2]
    sent_early = {route: trains[0] for route, trains in hop.items() if len(trains) == 2}
    assert {route: train["bursts"] for route, train in sent_early.items()} == {0: 3, 3: 1, 4: 2}
    assert all(t["start_ns"] == 0 and t["burst_ns"] == 20_000 for t in sent_early.values())
    assert [int(trains[-1]["start_ns"]) for trains in hop.values()] == [
        1_060_000, 1_000_000, 1_000_000, 1_020_000, 1_040_000,
    ]  # fmt: skip
    assert all(trains["bursts"].sum() == 8 for trains in hop.values())
    assert all(
        trains["follows"].tolist() == [False, True][: len(trains)] for trains in hop.values()
    )
    assert end == 1_000_000 + 8 * 20_000


@settings(max_examples=60)
@given(st.data())
def test_early_chunks_are_those_of_the_recursion(data):
    """Against the plain recursion in which a hop waits for both its ranks."""
    n = data.draw(st.integers(2, 9))
    ready = data.draw(st.lists(st.integers(0, 300), min_size=n, max_size=n))
    own = data.draw(st.lists(st.integers(1, 60), min_size=n, max_size=n))
    steps = 2 * (n - 1)
    idle = np.zeros((n, NOTES + 1)), np.zeros((n, NOTES + 1))  # all links with room
    for time_ns, spared in zip(*idle, strict=True):
        time_ns[NOTES], spared[NOTES] = max(ready), 1e6 * max(ready)
    spare = Spare(np.arange(n + 1), *idle)
    rate = 1_000 / np.array(own, float)
    chunks, begin, end, left = early_chunks(
        np.array(ready), rate, spare, 1_000, np.zeros(n), max(ready), steps
    )
    end = end + left / rate
    sent = {}
    for k in range(steps):
        for i in range(n):
            before = max(sent[i, k - 1], sent[i - 1 if i else n - 1, k - 1]) if k else 0
            sent[i, k] = max(before, ready[i], ready[(i + 1) % n]) + own[i]
    for i in range(n):
        early = [k for k in range(steps) if sent[i, k] - own[i] < max(ready)]
        assert chunks[i] == len(early)
        if early:
            assert begin[i] == sent[i, 0] - own[i]
            assert end[i] == pytest.approx(sent[i, early[-1]])


ENDS = Path(__file__).parents[1] / "fixtures" / "foreign" / "contended.ends.txt"
RINGS, HOPS, STEPS, LATE_NS = 3, 9, 16, 1_000_000
CHUNK_BYTES, CAPACITY = 10_000_000, 50.0
ALONE_NS = CHUNK_BYTES / CAPACITY
SHARED = 0
"""The hop that all rings send over the same link."""


@pytest.fixture(scope="module")
def simgrid_ends_ns():
    """When each chunk has moved, shape (rings, steps, hops)."""
    return np.loadtxt(ENDS, comments="#").reshape(RINGS, STEPS, HOPS)


@pytest.fixture(scope="module")
def bursts():
    """Begin and end of each burst of the coupled rings, shape (rings, steps, hops)."""
    env, trains = Clock(), []
    fabric = Fabric(env, np.full(RINGS * HOPS, CAPACITY), Templates())
    network = SimpleNamespace(fabric=fabric, observer=SimpleNamespace(observe=trains.append))
    done = []
    for number in range(RINGS):
        links = [SHARED, *(number * HOPS + hop for hop in range(1, HOPS))]
        hops = [Hop(number * HOPS + hop, (link,), 0.0) for hop, link in enumerate(links)]
        start(env, Ring(hops, range(HOPS), 1, network), number * LATE_NS, done)
    env.run(until=env.all_of(done))
    records = cut(np.concatenate(trains), gap_ns=-1)  # every burst is a record
    records = records[np.lexsort((records["start_ns"], records["route"]))]
    shape = (RINGS, HOPS, STEPS)
    return tuple(records[name].reshape(shape).swapaxes(1, 2) for name in ("start_ns", "end_ns"))


def start(env, ring, at_ns, done):
    """Have ``ring`` reduce at ``at_ns``."""
    done.append(env.event())
    ready = [at_ns] * HOPS
    env.call_at(at_ns, lambda event=done[-1]: _reduce(ring, ready, event))


def _reduce(ring, ready, event):
    ring.start("all_reduce", HOPS * CHUNK_BYTES, ready, event)


def test_every_chunk_arrives_when_simgrid_has_it_within_a_trip_round_the_ring(
    bursts, simgrid_ends_ns
):
    assert np.abs(bursts[1] - simgrid_ends_ns).max() <= HOPS * RINGS * ALONE_NS


def test_chunks_on_the_shared_link_take_as_long_as_in_simgrid(bursts, simgrid_ends_ns):
    """The link is never idle, so a chunk takes the time from the last end to its own end."""
    begin, end = bursts
    theirs = np.diff(simgrid_ends_ns[:, :, SHARED], axis=1)
    np.testing.assert_allclose((end - begin)[:, 1:, SHARED], theirs, rtol=1e-3)
    assert len(np.unique(np.rint(theirs / ALONE_NS))) == RINGS  # alone, by twos and by threes


def test_a_hop_with_a_link_of_its_own_sends_at_line_rate_and_waits(bursts):
    begin, end = bursts
    free = [hop for hop in range(HOPS) if hop != SHARED]
    np.testing.assert_allclose((end - begin)[:, :, free], ALONE_NS, rtol=1e-6)


def test_bursts_on_the_shared_link_fit_it(bursts):
    start_ns, end_ns = (times[:, :, SHARED].ravel() for times in bursts)
    records = pd.DataFrame({"start_ns": start_ns, "end_ns": end_ns, "bytes": CHUNK_BYTES})
    assert lateness_ns(records, CAPACITY * 1.0001) <= 1
