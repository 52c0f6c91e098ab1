"""Where steps begin that hardly rest: bytes are counted from the first or the last record.

Ranks that gather sharded parameters send all the time. The longest silence of a step may then be
in the middle of it, between the last gather of the forward pass and the first one of the backward
pass, and equal parts of traffic need not begin where steps do. But each connection moves as many
bytes in every step. So if the records begin with a step, each connection begins another one after
every so many bytes. They do if all bytes are a whole number of steps, or if the job began after
the records did: then it is silent before its first record for longer than ever between.

At the end of a step each connection rests, since no rank has parameters to send before its
optimizer has updated them. At the end of a micro-batch none does. So where only every second,
third ... part ends with a rest, the parts are micro-batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.cycles.balance import EVEN
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.parameters import EQUAL, FEWEST, MOSTLY, QUARTER, SMALL
from llmprism.numerics.arrays import Codes, Floats, Ints, order_in_groups
from prism_common.early import INTS

UPDATE = 0.5  # of the median update: shorter ones are none
BRIEF_NS = 100_000  # an optimizer takes longer; messages that follow at once rest for less


@dataclass(frozen=True)
class Hop:
    """One connection.

    Attributes
    ----------
    own : its records in the traffic, in order of start.
    before : bytes before each record, and all bytes at the end.
    rest_ns : silence before each record [ns], 0 or less if there is none.
    """

    own: Ints
    before: Floats
    rest_ns: Floats

    def borders(self, place: _Place) -> tuple[Ints, float]:
        """Records that begin the steps at ``place``, and the share of steps that really do."""
        begins, total = self.before[:-1], self.before[-1]
        far = [place.far * total]
        if not place.whole:
            near = begins[np.abs(begins - far[0]) <= EVEN * abs(place.far - place.origin) * total]
            far += near[np.argsort(np.abs(near - far[0]), kind="stable")].tolist()
        best: tuple[Ints, float] = (INTS, -1.0)
        message = float(np.median(np.diff(self.before)))
        for end in far:
            wanted = np.linspace(place.origin * total, end, place.count + 1)[1:]
            best = max(best, begun_at(begins, wanted, message), key=lambda one: one[1])
        return best


@dataclass(frozen=True)
class _Place:
    """Where the steps of a connection begin, in shares of all its bytes.

    Attributes
    ----------
    origin : bytes before the first whole step; 1 if steps are counted backwards from the end.
    far : bytes before the last step that is counted.
    count : steps that begin after the origin, up to the last.
    whole : whether all bytes are whole steps, so that ``far`` is exact.
    """

    origin: float
    far: float
    count: int
    whole: bool


def counted_steps(
    traffic: Traffic, hops: Sequence[Hop], step: float, recorded_ns: tuple[int, int] | None
) -> Codes | None:
    """Step of each record, from 0; None if it is not known where steps begin.

    ``hops`` are the connections of the ``traffic`` (:func:`hops_of`), ``step`` is about the share
    of all bytes that moves in a step or in a micro-batch, and ``recorded_ns`` is when the records
    of all traffic begin and end [ns], if that is known.
    """
    for place in _places(traffic, step, recorded_ns):
        if place.count < 1 or min(hop.own.size for hop in hops) <= place.count:
            continue
        found = [hop.borders(place) for hop in hops]
        if float(np.median([exact for _, exact in found])) < MOSTLY:
            continue
        rest_ns = [hop.rest_ns[at] for hop, (at, _) in zip(hops, found, strict=True)]
        every = _every(np.median(rest_ns, axis=0))
        if every is None:
            continue
        step_of = np.zeros(len(traffic), np.int32)
        for hop, (at, _) in zip(hops, found, strict=True):
            opens = np.sort(at[every - 1 :: every])
            step_of[hop.own] = np.searchsorted(opens, np.arange(hop.own.size), side="right")
        return step_of
    return None


def _places(traffic: Traffic, step: float, recorded_ns: tuple[int, int] | None) -> list[_Place]:
    """Where steps may begin: with the first record, or so that the last one ends with the last."""
    found = []
    count = int(np.rint(1 / step))
    if abs(1 / step - count) <= QUARTER:
        found.append(_Place(0.0, (count - 1) / count, count - 1, whole=True))
    if recorded_ns is not None:
        longest_ns, count = int(traffic.rests_ns().max()), int(1 / step)
        if int(traffic.start_ns[0]) - recorded_ns[0] > longest_ns:
            found.append(_Place(0.0, count * step, count, whole=False))
        if recorded_ns[1] - int(traffic.end_ns.max()) > longest_ns:
            found.append(_Place(1.0, 1 - count * step, count, whole=False))
    return found


def _every(rest_ns: Floats) -> int | None:
    """Parts in a step, by the rest at each border between parts; None if that is not clear.

    A single rest that is much longer than the others may be the only update that was recorded.
    """
    most = (rest_ns.size + 1) // FEWEST
    for every in (*range(2, most + 1), 1):
        updates = rest_ns[every - 1 :: every]
        others = np.delete(rest_ns, np.s_[every - 1 :: every])
        usual = float(np.median(updates))
        rests = usual >= BRIEF_NS and np.mean(updates >= UPDATE * usual) >= MOSTLY
        alike = updates.max() * SMALL <= usual
        if rests and alike and (not others.size or np.mean(others <= BRIEF_NS) >= MOSTLY):
            return int(every)
    return None


def hops_of(traffic: Traffic) -> list[Hop]:
    """The connections of a class."""
    connection = traffic.couple.astype(np.int64) * 2 + traffic.forth
    order = order_in_groups(connection, traffic.start_ns).astype(np.int64)
    opens = np.flatnonzero(np.diff(connection[order], prepend=-1))
    hops = []
    for own in np.split(order, opens[1:]):
        moved = np.cumsum(traffic.size[own], dtype=np.float64)
        ended = np.maximum.accumulate(traffic.end_ns[own])
        rest_ns = np.zeros(own.size)
        rest_ns[1:] = traffic.start_ns[own[1:]] - ended[:-1]
        hops.append(Hop(own, np.concatenate(([0.0], moved)), rest_ns))
    return hops


def begun_at(before: Floats, wanted: Floats, message: float) -> tuple[Ints, float]:
    """The records nearest to the ``wanted`` bytes, and the share of these at which one begins.

    ``before`` are the bytes before each record, and ``message`` those of the median one.
    """
    after = np.clip(np.searchsorted(before, wanted), 1, before.size - 1)
    at = after - (wanted - before[after - 1] <= before[after] - wanted)
    return at, float((np.abs(before[at] - wanted) <= EQUAL * message).mean())
