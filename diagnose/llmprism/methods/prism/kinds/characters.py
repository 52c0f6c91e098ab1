"""What a class of connections is like: its shape, and when its traffic moves within a step.

:mod:`~llmprism.methods.prism.kinds.kinds` decides the kind of traffic from these figures.
In a pipeline one direction of a couple waits for the other: activations begin a step, and a
gradient ends it. In an exchange both directions begin at once, or either of them does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.sizes import is_activations
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.kinds.outstanding import share_outstanding, share_together
from llmprism.methods.prism.parameters import MOSTLY, NEARLY, QUARTER, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.graph import groups

AHEAD = 0.02  # of a step's volume, mean: what a pipeline has outstanding at least
BESIDE, LOST_AHEAD = 0.8, 0.1  # the same where both begin and move together, and records are lost
NEARLY_ALL, EQUALLY = 0.9, 0.1  # share of bytes of records that are nearly as fast as the fastest
PASSES = 0.65  # a pipeline rests for less than this share of a step
UNLIKE = 2.0  # ratio of sizes that differ
TICKS = 10  # of the clock: a record that shows its rate is longer
ONE_RECORD = 1.5  # records of a step in one direction, below which it is merged

Set = frozenset[int]
CLEAR, LITTLE = 0.05, 0.002  # of a step's traffic; a pass of 100 micro-batches is more than that


@dataclass(frozen=True)
class Character:
    """What a class is like.

    Attributes
    ----------
    outstanding : share of the silence inside steps in which one direction is ahead of the other.
    ahead : mean amount by which, over the volume of a step.
    together : share of the time of the lesser direction in which both move.
    leads : share of steps in which the same direction begins, if clearly before the other.
    other_leads : share of steps in which the other direction begins, clearly before that one.
    answered : share of steps that one direction begins and the other ends, both clearly.
    dense : whether bytes move as fast in long records as in short ones, so that none holds waits.
    at_once : whether both directions begin steps at once, as far as the clock shows.
    rest : the longest silence of a step over the step, median.
    messages : records of a connection in a step.
    alike : whether messages have the sizes of activations: one, or one and its double.
    first_ns, last_ns : first start and last end in each step [ns], NaN where there is none.
    groups : sets of endpoints that the class joins.
    pairs : ordered pairs of endpoints.
    begun : for each couple both endpoints, and by how large a share of steps the first one clearly
        begins more of them than the second one.
    """

    outstanding: float
    ahead: float
    together: float
    leads: float
    other_leads: float
    answered: float
    dense: bool
    at_once: bool
    rest: float
    messages: float
    alike: bool
    first_ns: Floats
    last_ns: Floats
    groups: tuple[Set, ...]
    pairs: frozenset[tuple[int, int]]
    begun: tuple[tuple[int, int, float], ...] = ()

    @property
    def is_merged(self) -> bool:
        """Whether all messages of a step are one record, which shows nothing of their sizes."""
        return self.messages <= ONE_RECORD

    @property
    def begins_alone(self) -> bool:
        """Whether the same direction begins all steps, and the other one mostly moves later."""
        return self.leads >= NEARLY and self.together < QUARTER

    @property
    def is_pipeline(self) -> bool:
        """Whether one direction waits for the other as a pipeline's does."""
        clearly = self.leads + 2 * self.other_leads  # share of steps that one clearly begins
        if self.together >= QUARTER and self.other_leads >= max(SMALL, QUARTER * clearly):
            return False  # both ways begin now and then: nobody waits
        if self.is_merged:
            return self.answered >= NEARLY and not (self.dense and self.together >= BESIDE)
        beside = self.together >= BESIDE and self.leads < NEARLY / 2
        exchange = self.together >= QUARTER and self.ahead < (LOST_AHEAD if beside else AHEAD)
        if self.rest > PASSES and self.leads < NEARLY and self.ahead < LOST_AHEAD:
            return False
        return self.answered >= NEARLY or (self.outstanding > QUARTER and not exchange)


def character_of(
    connections: Connections, one: TrafficClass, step: Codes, count: int, nodes: int
) -> Character:
    """What a class is like; ``step`` is that of each record, and ``nodes`` counts all endpoints."""
    src, dst = connections.src[one.connections], connections.dst[one.connections]
    traffic = one.traffic
    start, end = extents(traffic, step, count)
    busy = start <= end
    outstanding, ahead, together, at_once = 0.0, 0.0, 1.0, False
    leads, other_leads, answered = 0.0, 0.0, 0.0
    if one.two_way:
        outstanding, ahead = share_outstanding(traffic, step)
        together = share_together(traffic)
        leads, other_leads, answered = shares_begun(traffic, step, count)
        at_once = begin_at_once(traffic, step, count)
    return Character(
        outstanding=outstanding,
        ahead=ahead,
        together=together,
        leads=leads,
        other_leads=other_leads,
        answered=answered,
        dense=_is_dense(traffic),
        at_once=at_once,
        rest=_rest(start[busy], end[busy]),
        messages=len(traffic) / one.connections.size / count,
        alike=is_activations(traffic.size),
        first_ns=np.where(busy, start, np.nan),
        last_ns=np.where(busy, end, np.nan),
        groups=groups(src, dst, nodes),
        pairs=frozenset(zip(src.tolist(), dst.tolist(), strict=True)),
        begun=couples_begun(connections, traffic, step, count) if one.two_way else (),
    )


def extents(traffic: Traffic, step: Codes, count: int) -> tuple[Ints, Ints]:
    """First start and last end in each step [ns]; a step without traffic ends before it starts."""
    known = step >= 0
    start = np.full(count, np.iinfo(np.int64).max)
    end = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(start, step[known], traffic.start_ns[known])
    np.maximum.at(end, step[known], traffic.end_ns[known])
    return start, end


def _rest(start: Ints, end: Ints) -> float:
    """The silence between a step's traffic and that of the next, over the step; median."""
    if start.size < 2:
        return 0.0
    silence = start[1:] - np.maximum.accumulate(end)[:-1]
    return float(np.median(silence / np.maximum(np.diff(start), 1)))


def _is_dense(traffic: Traffic) -> bool:
    """Whether nearly all bytes move at the highest rate, also in records of very different size."""
    length = traffic.end_ns - traffic.start_ns
    if length.min() <= TICKS * clock_tick_ns(traffic.start_ns, traffic.end_ns):
        return False
    rate = traffic.size / length
    fast = traffic.size[rate >= (1 - EQUALLY) * rate.max()]
    return bool(fast.sum() >= NEARLY_ALL * traffic.size.sum() and UNLIKE * fast.min() < fast.max())


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
