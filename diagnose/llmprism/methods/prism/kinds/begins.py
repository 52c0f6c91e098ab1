"""Which direction of a couple begins the steps.

In a pipeline one direction waits for the other: activations begin a step, and a gradient ends it.
In an exchange both directions begin at once, or either of them does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.parameters import MOSTLY
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

CLEAR, LITTLE = 0.05, 0.002  # of a step's traffic; a pass of 100 micro-batches is more than that


def shares_begun(traffic: Traffic, step: Codes, count: int) -> tuple[float, float, float]:
    """Share of steps in which the same direction of a couple begins, clearly before the other.

    That in which the other one does, and that of steps that one direction begins and the other one
    ends, always the same: all means over couples.
    """
    couples = int(traffic.couple.max()) + 1
    whole, begins = _begun_by(traffic, step, count)
    _, ends = _begun_by(_reversed(traffic), step, count)
    owner = np.repeat(np.arange(couples), count)[whole]
    steps = np.maximum(np.bincount(owner, minlength=couples), 1)
    ways = [np.bincount(owner, begins == way, couples) / steps for way in (-1.0, 1.0)]
    leads = np.abs(ways[0] - ways[1])
    answered = np.abs(np.bincount(owner, np.where(ends == -begins, begins, 0.0), couples)) / steps
    return float(leads.mean()), float(np.minimum(*ways).mean()), float(answered.mean())


def couples_begun(
    connections: Connections, traffic: Traffic, step: Codes, count: int
) -> tuple[tuple[int, int, float], ...]:
    """For each couple both endpoints, and by how large a share of steps the first one begins more.

    Only steps count that one of them begins clearly before the other.
    """
    first = np.unique(traffic.couple, return_index=True)[1]
    row, forth = connections.of_row[traffic.row[first]], traffic.forth[first]
    ends = connections.src[row], connections.dst[row]
    lower, upper = (np.where(forth == way, *ends).tolist() for way in (True, False))
    whole, begins = _begun_by(traffic, step, count)
    owner = np.repeat(np.arange(first.size), count)[whole]
    steps = np.maximum(np.bincount(owner, minlength=first.size), 1)
    share = np.bincount(owner, begins, first.size) / steps
    return tuple(zip(lower, upper, share.tolist(), strict=True))


def _begun_by(traffic: Traffic, step: Codes, count: int) -> tuple[Bools, Floats]:
    """Cells (couple, step) with both directions, and which begins clearly: -1, 1, or 0 for none.

    A direction does if the other one waits until its first message has arrived, or for a good part
    of the step's traffic, and for longer than rounding of its times explains.
    """
    whole, first, arrived, span = _openings(traffic, step, count)
    lead = (first[:, 0] - first[:, 1]).astype(np.float64)
    leader = (lead > 0).astype(np.int64)
    among = np.arange(leader.size)
    waits = first[among, 1 - leader] >= arrived[among, leader]
    late = (np.abs(lead) > CLEAR * span) & (np.abs(lead) > clock_tick_ns(traffic.start_ns))
    return whole, np.where(late | waits, np.sign(lead), 0.0)


def _reversed(traffic: Traffic) -> Traffic:
    """``traffic`` as if time ran backwards; records keep their order."""
    return replace(traffic, start_ns=-traffic.end_ns, end_ns=-traffic.start_ns)


def begin_at_once(traffic: Traffic, step: Codes, count: int) -> bool:
    """Whether both directions of a couple begin most steps at once, on a clock that shows it."""
    _, first, _, span = _openings(traffic, step, count)
    if span.size == 0 or clock_tick_ns(traffic.start_ns) > LITTLE * float(np.median(span)):
        return False
    return float((np.abs(first[:, 0] - first[:, 1]) <= LITTLE * span).mean()) >= MOSTLY


def _openings(traffic: Traffic, step: Codes, count: int) -> tuple[Bools, Ints, Ints, Ints]:
    """Cells (couple, step) with both directions; for these the first start and end, and the span.

    Start and end [ns] of each direction's first record have shape (cells, 2); the span [ns] is from
    the first start to the last end.
    """
    couples = int(traffic.couple.max()) + 1
    never = np.iinfo(np.int64).max
    first, arrived = np.full((couples * count, 2), never), np.full((couples * count, 2), never)
    last = np.full(couples * count, -never)
    cell = traffic.couple.astype(np.int64) * count + step
    way = 2 * cell + traffic.forth
    np.minimum.at(first.ravel(), way, traffic.start_ns)
    np.minimum.at(arrived.ravel(), way, traffic.end_ns)
    np.maximum.at(last, cell, traffic.end_ns)
    whole: Bools = first.max(axis=1) < never
    return whole, first[whole], arrived[whole], last[whole] - first[whole].min(axis=1)
