"""The steps of a component: what its lanes repeat together.

Each lane may be divided at its silences in several ways (:mod:`~.levels`). All lanes vote for the
number of steps (:mod:`~.vote`). Borders are placed where equal bytes of all lanes are parted
(:mod:`~.programme`, :mod:`~.borders`), and every lane is cut there (:mod:`~.cutting`). Where lanes
do not send the same in each of these steps, a second number is tried, and none is better than one
that hardly fits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.parameters import (
    ALIKE_BYTES,
    EVALUATION_BYTES,
    FEW_DEVIATE,
    FEWEST_STEPS,
    LEAST_FIT,
    LEAST_QUALITY,
    RIVAL,
    SURELY_FIT,
    SYSTEMATIC,
    VOTES_WORTH,
)
from llmprism.methods.prism.segment.balance import Balance, balance_of
from llmprism.methods.prism.segment.borders import find_borders
from llmprism.methods.prism.segment.cutting import cut_lane
from llmprism.methods.prism.segment.fit import Fit, fit_of
from llmprism.methods.prism.segment.lanes import Lane, lanes_of
from llmprism.methods.prism.segment.levels import Level, levels_of
from llmprism.methods.prism.segment.programme import refine, usual_bytes
from llmprism.methods.prism.segment.stepping import Stepping
from llmprism.methods.prism.segment.vote import Election, elect
from llmprism.numerics.arrays import Codes, Floats, Ints
from prism_common.early import INTS


def find_steps(component: Component, near: int | None = None) -> Stepping:
    """Find the steps of ``component``, ``near`` a given number; a count of 0 if nothing repeats."""
    lanes = lanes_of(component.classes)
    balances = _balances(lanes)
    levels = [levels_of(lane, balances.get(i)) for i, lane in enumerate(lanes)]
    elected = elect(lanes, levels, balances, near)
    if elected is None:
        return _without_steps(component)
    regular = np.array([max((lv.regular for lv in own), default=0.0) for own in levels])
    best = _divided(lanes, elected, balances, regular)
    if near is None and (not best.is_believed or best.fit.worth < SURELY_FIT):
        rival = elect(lanes, levels, balances, besides=elected.steps)
        if rival is not None and rival.weight >= RIVAL * elected.weight:
            other = _divided(lanes, rival, balances, regular)
            whole = best.is_believed and best.fit.missing < 1 - SURELY_FIT
            if not (whole and other.steps < best.steps):  # several steps together always fit
                best = max(best, other, key=lambda each: each.worth)
    if not best.is_believed:
        return _without_steps(component)
    step_of = [np.full(len(one.traffic), -1, np.int32) for one in component.classes]
    for i, (lane, bounds) in enumerate(zip(lanes, best.bounds, strict=True)):
        step_of[lane.of_class][lane.rows] = _numbered(lane, bounds, balances.get(i))
    lead = lanes[best.election.lead].of_class
    start, end = _extents(component, step_of, lead, best.steps)
    return Stepping(best.steps, best.quality, lead, tuple(step_of), start, end)


@dataclass(frozen=True)
class _Division:
    """All lanes cut at the borders of the steps that were elected."""

    election: Election
    steps: int
    bounds: list[Ints]
    fit: Fit

    @property
    def level(self) -> Level:
        """That of the lead lane."""
        return self.election.levels[self.election.lead]

    @property
    def quality(self) -> float:
        """How far the steps are to be believed, in [0, 1]."""
        return min(float(np.sqrt(self.level.quality)), self.fit.share)

    @property
    def is_believed(self) -> bool:
        """Whether chance does not make such steps: a few parts have to be more alike."""
        is_few = self.steps <= FEWEST_STEPS
        if self.fit.share < LEAST_FIT or (is_few and self.level.deviation > FEW_DEVIATE):
            return False
        return self.fit.share * float(np.sqrt(self.level.quality)) >= LEAST_QUALITY

    @property
    def worth(self) -> tuple[bool, float]:
        """The better of two divisions has more of it; votes decide if both fit as well."""
        votes = VOTES_WORTH * float(np.log(self.election.weight))
        return self.is_believed, self.fit.worth + votes


def _divided(
    lanes: list[Lane], elected: Election, balances: dict[int, Balance], regular: Floats
) -> _Division:
    """Lanes cut at the borders of the ``elected`` steps."""
    election = refine(lanes, elected, balances)
    borders = find_borders(lanes, election, balances)
    bounds = [cut_lane(lane, borders) for lane in lanes]
    return _Division(election, borders.steps, bounds, fit_of(lanes, bounds, regular))


def _balances(lanes: list[Lane]) -> dict[int, Balance]:
    """Bytes under way of each lane that has one in the other direction."""
    back = {(lane.of_class, lane.couple, lane.forth): i for i, lane in enumerate(lanes)}
    balances: dict[int, Balance] = {}
    for i, lane in enumerate(lanes):
        other = back.get((lane.of_class, lane.couple, not lane.forth), -1)
        if other > i and (balance := balance_of(lane, lanes[other])) is not None:
            balances[i] = balances[other] = balance
    return balances


def _without_steps(component: Component) -> Stepping:
    """No steps."""
    unknown = tuple(np.full(len(one.traffic), -1, np.int32) for one in component.classes)
    return Stepping(0, 0.0, -1, unknown, INTS, INTS)


def _numbered(lane: Lane, bounds: Ints, balance: Balance | None) -> Codes:
    """The step of each record of a lane; -1 for those of an evaluation before or after a step.

    What a step has more than usual is an evaluation. Silences part them, and nobody answers it.
    """
    step = np.repeat(np.arange(bounds.size - 1, dtype=np.int32), np.diff(bounds))
    moved = np.diff(lane.sent[bounds])
    usual = usual_bytes(moved)
    noise = SYSTEMATIC * float(np.median(np.abs(moved / usual - 1)))
    more = moved > (1 + max(EVALUATION_BYTES, noise)) * usual
    if balance is not None:  # longer sequences have longer messages, an evaluation has more of them
        record = moved / np.maximum(np.diff(bounds), 1)
        more &= record / np.median(record) < np.sqrt(moved / usual)
    lacks = np.pad(moved < (1 - ALIKE_BYTES) * usual, 1, constant_values=True)
    more &= ~(lacks[2:] | lacks[:-2])  # it may be of the step beside it, which lacks it
    for k in np.flatnonzero(more):
        first, last = bounds[k : k + 2]
        begin, end = _without_evaluations(lane, int(first), int(last), float(usual), balance)
        step[first:begin] = step[end:last] = -1
    return step


def _without_evaluations(
    lane: Lane, first: int, last: int, usual: float, balance: Balance | None
) -> tuple[int, int]:
    """First record, and the one after the last, of a step of ``usual`` bytes among more of them."""
    sent = lane.sent[first : last + 1]
    until = np.minimum(np.searchsorted(sent, sent + usual), sent.size - 1)
    until -= (sent[until] - sent - usual) > (sent + usual - sent[until - 1])
    low, high = lane.silence(np.arange(first, last + 1), (-np.inf, np.inf))
    quiet = np.minimum(high - low, (high - low)[until])
    quiet[np.abs(sent[until] - sent - usual) > ALIKE_BYTES * usual] = -np.inf
    if balance is not None:
        waits = np.concatenate(([0], np.cumsum(~balance.clean(low, high))))
        inside = waits[until] - waits[np.minimum(np.arange(sent.size) + 1, until)]
        quiet[inside < inside[quiet > -np.inf].max(initial=0)] = -np.inf
    begin = int(np.argmax(quiet))
    return first + begin, first + int(until[begin])


def _extents(
    component: Component, step_of: list[Codes], lead: int, count: int
) -> tuple[Ints, Ints]:
    """Begin and end of each step [ns], of the class ``lead``; of all where it sends nothing."""
    start = np.full((2, count), np.iinfo(np.int64).max)
    end = np.full((2, count), np.iinfo(np.int64).min)
    for i, (one, step) in enumerate(zip(component.classes, step_of, strict=True)):
        known = step >= 0
        np.minimum.at(start[int(i != lead)], step[known], one.traffic.start_ns[known])
        np.maximum.at(end[int(i != lead)], step[known], one.traffic.end_ns[known])
    silent = end[0] < start[0]
    return np.where(silent, start[1], start[0]), np.where(silent, end[1], end[0])
