"""A transfer that never ends has a record of what was sent until its link stopped."""

import numpy as np
import pytest

from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.templates import Templates
from prism_sim.cluster.wire import flows

RATE, SIZE = 10.0, 10_000  # bytes per ns, bytes


def sending(stops_ns=None):
    """A fabric in which one flow is under way, whose link stops at a time."""
    env, templates = Clock(), Templates()
    fabric = Fabric(env, np.array([RATE]), templates)
    bundle = templates.add_bundle([templates.add([0], route=7)])
    fabric.transfer(bundle, SIZE, 0, env.event())

    def stop():
        yield env.timeout(stops_ns)
        fabric.set_capacity(0, 1e-9 * RATE)

    if stops_ns is not None:
        env.process(stop())
    return env, fabric


@pytest.mark.parametrize(
    ("stops_ns", "until_ns", "ended_ns"),
    [(None, 300, 300), (400, 300, 300), (400, 10**9, 400), (400, 600 * 10**9, 400)],
)
def test_the_record_ends_with_the_last_byte(stops_ns, until_ns, ended_ns):
    env, fabric = sending(stops_ns)
    env.run(until=until_ns)
    (row,) = flows(fabric.unfinished())
    assert (row["start_ns"], row["burst_ns"], row["route"]) == (0, ended_ns, 7)
    assert row["burst_bytes"] == pytest.approx(RATE * ended_ns, rel=0.01)


def test_a_transfer_that_ended_is_not_counted_twice():
    env, fabric = sending()
    env.run(until=5_000)
    assert fabric.drain()["bytes"].tolist() == [SIZE]
    assert fabric.unfinished().size == 0
