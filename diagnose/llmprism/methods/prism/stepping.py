"""The steps of one component: how many, and which records belong to which.

Each class of a component proposes divisions (:mod:`~llmprism.methods.prism.cycles`). Training
steps are common to all of them, so the number of parts that most classes agree on is the
number of steps.

Equal parts may still be too fine or too coarse: see :mod:`~llmprism.methods.prism.coarser`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.classes import Component, TrafficClass
from llmprism.methods.prism.coarser import (
    GOOD,
    GRADIENTS,
    extent,
    is_paused,
    is_step,
    lacks_gradients,
    of_count,
    standing,
)
from llmprism.methods.prism.cycles import Division, Traffic, divisions, steps_from
from llmprism.methods.prism.evaluations import beyond_steps
from llmprism.methods.prism.messages import same_messages, several_collectives
from llmprism.methods.prism.parts import regularity
from llmprism.methods.prism.seldom_updates import updates
from llmprism.numerics.arrays import Codes, Floats, Ints

FEWEST = 3
LASTING = 0.4  # share of the time of the longest class
MOSTLY = 0.8  # share of silences between steps that two classes have in common
UNCLEAR = 1.5  # clarity below which a class may have been cut in the wrong place
CLEARER = 3.0  # ratio of clarities from which the reference is believed rather than a class
SAME_SPREAD = 0.02  # of a part: difference in spread that decides nothing
_CLOSE = 0.5  # share of the best vote that makes a coarser count worth a look
_NEAR = 0.03  # difference in votes that decides nothing


@dataclass(frozen=True)
class Stepping:
    """The steps of a component.

    Attributes
    ----------
    count : number of steps, 0 if flows show none.
    quality : of the reference's division, in [0, 1].
    reference : index of the class whose division is the reference.
    step_of : for each class the step of each of its records, -1 where unknown.
    start_ns, end_ns : of the reference's traffic in each step [ns], shape (count,).
    """

    count: int
    quality: float
    reference: int
    step_of: tuple[Codes, ...]
    start_ns: Ints
    end_ns: Ints


@dataclass(frozen=True)
class Part:
    """A component and its steps."""

    component: Component
    stepping: Stepping


NONE = np.empty(0, np.int64)


def find_steps(component: Component) -> Stepping:
    """Find the steps of ``component``; a count of 0 where nothing repeats."""
    lasting = _lasting(component)
    proposed = [
        divisions(one.traffic, FEWEST) if lasts else []
        for one, lasts in zip(component.classes, lasting, strict=True)
    ]
    count = _agreed(component.classes, proposed)
    if count == 0:
        unknown = tuple(np.full(len(one.traffic), -1, np.int32) for one in component.classes)
        return Stepping(0, 0.0, -1, unknown, NONE, NONE)
    own = [_of_steps(divisions_, count) for divisions_ in proposed]
    reference = max(range(len(own)), key=lambda i: standing(own[i]))
    best = own[reference]
    assert best is not None
    lead = component.classes[reference].traffic
    ended = updates(lead, best)
    if ended.size:
        best = steps_from(lead, ended)
        count = len(best)
        own = [best if i == reference else None for i in range(len(own))]
    borders = _borders(component, lead, best)
    step_of = [
        _assigned(one.traffic, division, lead, best, borders)
        for one, division in zip(component.classes, own, strict=True)
    ]
    start, end = extent(lead, best)
    return Stepping(count, best.quality, reference, tuple(step_of), start, end)


def division_of(stepping: Stepping) -> Division:
    """The division of the reference's traffic into the steps that were found."""
    cuts = np.flatnonzero(np.diff(stepping.step_of[stepping.reference]) > 0) + 1
    return Division(cuts, np.zeros(cuts.size + 1), np.inf, 0.0, 0.0, 1.0)


def _of_steps(own: list[Division], count: int) -> Division | None:
    """The division of a class into so many steps; None if one part fewer is clearly better.

    Where records end within a step, a class that moves late in steps has not moved in the last one.
    """
    division, fewer = of_count(own, count), of_count(own, count - 1)
    if division is None or fewer is None:
        return division
    worse = division.quality < (1 - SAME_SPREAD) * fewer.quality
    return None if worse and fewer.clarity >= CLEARER * division.clarity else division


def _lasting(component: Component) -> list[bool]:
    """Which classes are active for a good part of the time of the longest, and not only once.

    Classes that move little do not count as the longest: a service may go on after the job.
    """
    spans = []
    for one in component.classes:
        moved = np.cumsum(one.traffic.size, dtype=np.float64)
        middle = np.searchsorted(moved, moved[-1] * np.array([0.05, 0.95]))
        spans.append(float(np.diff(one.traffic.start_ns[middle])[0]))
    total = sum(one.bytes for one in component.classes)
    large = [one.bytes >= GRADIENTS * total for one in component.classes]
    longest = max(span for span, counts in zip(spans, large, strict=True) if counts)
    return [span >= LASTING * longest for span in spans]


def _agreed(classes: tuple[TrafficClass, ...], proposed: list[list[Division]]) -> int:
    """The number of parts that most classes agree on; 0 if there is none.

    Parts of a single record are equal if records are, also where records were lost. So a vote
    counts the less the fewer records a part has. Parts of equal bytes in other messages may be no
    steps; they count where a class with equal messages has as many.
    """
    votes: dict[int, float] = {}
    others: dict[int, float] = {}
    for one, own in zip(classes, proposed, strict=True):
        for count, alike in _by_count(own).items():
            best = max(alike, key=lambda division: division.weight)
            if best.quality < GOOD or several_collectives(one, best):
                continue
            side = votes if same_messages(one, best) else others
            vote = best.weight * (1 - count / (len(one.traffic) + 1))
            side[count] = side.get(count, 0.0) + vote
    votes = {
        count: vote + others.get(count, 0.0)
        for count, vote in votes.items()
        if not lacks_gradients(classes, proposed, count)
    }
    if not votes:
        return _agreed_in_time(classes, proposed)
    top = max(votes.values())
    chosen = max(votes, key=lambda count: (votes[count], count))
    counts = sorted(c for c, vote in votes.items() if vote >= _CLOSE * top)
    paused = [c for c in counts if is_paused(classes, proposed, c, chosen)]
    if paused:
        return max(paused, key=lambda count: votes[count])
    chosen = max(c for c in counts if c % chosen == 0 and votes[c] >= (1 - _NEAR) * top)
    for coarser in reversed([c for c in counts if c < chosen]):
        if chosen % coarser == 0 and is_step(classes, proposed, chosen, coarser):
            chosen = coarser
    return chosen


def _by_count(own: list[Division]) -> dict[int, list[Division]]:
    """Divisions of one class by their number of parts, from FEWEST on."""
    alike: dict[int, list[Division]] = {}
    for division in own:
        if len(division) >= FEWEST:
            alike.setdefault(len(division), []).append(division)
    return alike


def _agreed_in_time(classes: tuple[TrafficClass, ...], proposed: list[list[Division]]) -> int:
    """Where volumes do not repeat (records are lost): clear cuts at regular times."""
    votes: dict[int, float] = {}
    for one, own in zip(classes, proposed, strict=True):
        for division in own:
            clear = division.clarity >= 3.0 and len(division) >= FEWEST + 1
            if clear and not several_collectives(one, division):
                starts = one.traffic.start_ns[np.concatenate(([0], division.cuts))]
                tolerance, parts, _ = regularity(np.diff(starts).astype(np.float64))
                if np.isfinite(tolerance):
                    weight = parts * (1.0 - 1.0 / division.clarity)
                    votes[len(division)] = votes.get(len(division), 0.0) + weight
    return max(votes, key=lambda count: votes[count]) if votes else 0


def _assigned(
    traffic: Traffic, own: Division | None, lead: Traffic, best: Division, borders: Sequence[Ints]
) -> Codes:
    """Step of each record: by the class's own division, or by that of the reference.

    A class may have equal parts in several ways, a step's end shifted into the next one. The
    reference's cuts count if they make parts as equal, and the class is unclear about its cuts
    while the reference is clear, or the class moves on while the reference rests.
    """
    if own is None:
        return _by_windows(traffic, borders)
    parts = own.part_of(len(traffic))
    if own.evaluated:
        line = traffic.couple * 2 + traffic.forth
        return np.where(beyond_steps(line, parts, traffic.size), -1, parts).astype(np.int32)
    unclear = own.clarity < UNCLEAR and best.clarity >= CLEARER * own.clarity
    if not unclear and _rest_together(traffic, own, lead, best):
        return parts
    windows = _by_windows(traffic, borders)
    spreads = [
        _spread(np.bincount(step, traffic.size, len(best)).astype(np.float64))
        for step in (windows, parts)
    ]
    return windows if spreads[0] <= spreads[1] + SAME_SPREAD else parts


def _rest_together(traffic: Traffic, own: Division, lead: Traffic, best: Division) -> bool:
    """Whether the silences between the parts of two divisions overlap, nearly all of them."""
    start, end = extent(traffic, own)
    lead_start, lead_end = extent(lead, best)
    common = np.minimum(start[1:], lead_start[1:]) - np.maximum(end[:-1], lead_end[:-1])
    return bool((common >= 0).mean() >= MOSTLY)


def _borders(component: Component, lead: Traffic, best: Division) -> tuple[Ints, ...]:
    """Times [ns] that may part the steps, each of shape (steps - 1,).

    Right after a part of the reference, at the begin of its next one, and in between where no
    class moves anything for longest.
    """
    start, end = extent(lead, best)
    after, before = end[:-1], start[1:]
    begins = np.concatenate([one.traffic.start_ns for one in component.classes])
    ends = np.concatenate([one.traffic.end_ns for one in component.classes])
    order = np.argsort(begins, kind="stable")
    begins, busy = begins[order], np.maximum.accumulate(ends[order])
    quiet_ns = begins[1:] - busy[:-1]
    middle = (after + before) // 2
    for step, (low, high) in enumerate(zip(after.tolist(), before.tolist(), strict=True)):
        first, last = np.searchsorted(begins, (low, high), side="left")
        inside = quiet_ns[max(first - 1, 0) : last]
        if inside.size and inside.max() > 0:
            at = max(first - 1, 0) + int(np.argmax(inside))
            middle[step] = (busy[at] + begins[at + 1]) // 2
    return after, before, middle


def _by_windows(traffic: Traffic, borders: Sequence[Ints]) -> Codes:
    """Step of each record by those of the ``borders`` that make volumes most equal.

    Records may end within a step before the class moves in it: then the last step is empty.
    """
    choices: list[tuple[tuple[float, bool], Codes]] = []
    for one in borders:
        step = np.searchsorted(one, traffic.start_ns, side="right").astype(np.int32)
        volumes = np.bincount(step, traffic.size, one.size + 1).astype(np.float64)
        choices.append(((_spread(volumes), bool(volumes[0] < volumes[-1])), step))
    return min(choices, key=lambda choice: choice[0])[1]


def _spread(volumes: Floats) -> float:
    """How unequal parts are, usually and on average, over the median part."""
    median = float(np.median(volumes))
    away = np.abs(volumes - median)
    return float(np.median(away) + away.mean()) / max(median, 1.0)
