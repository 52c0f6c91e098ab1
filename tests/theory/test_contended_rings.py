"""Rings that share a link, burst by burst, compared with the chunks of SimGrid.

Three rings of nine hops each send one hop over the same link and begin 1 ms apart. In SimGrid 3.32,
every chunk of every hop is a flow of its own, which waits for two others (the fixture *contended*).
In the simulator each ring is one entity. The bursts that a switch would observe are compared here,
one per chunk.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from link_records import lateness_ns
from prism_sim.clock import Clock
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.network import Hop
from prism_sim.cluster.templates import Templates
from prism_sim.collector.collecting import cut
from prism_sim.training.collectives.ring import Ring

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


def test_rings_end_when_simgrid_ends_them(bursts, simgrid_ends_ns):
    ours, theirs = bursts[1].max((1, 2)), simgrid_ends_ns.max((1, 2))
    # SimGrid's chunks need a trip round the ring to settle into the pace of the shared link.
    assert (np.abs(ours - theirs) <= HOPS * RINGS * ALONE_NS).all()


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
