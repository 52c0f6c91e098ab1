"""The steps of one component: how many, and which records belong to which.

Each class of a component proposes divisions (:mod:`~llmprism.methods.prism.cycles`). Training
steps are common to all of them, so the number of parts that most classes agree on is the
number of steps.

Equal parts may still be too fine: buckets of one size, or micro-batches whose gradients are
reduced one by one, divide a step into parts that are alike. Such parts show themselves by the
gaps between them: every k-th gap is longer than all others. That this happens by chance for
all of the N / k longest gaps has probability 1 / C(N - 1, N / k - 1). Unless that is very small,
the longer gaps must also be longer by more than the others differ. Pauses (evaluation,
checkpoints) make every k-th gap longer, too. A coarser division is believed only in three cases:
the finer one's parts are single collectives; two of them make a coarser part (gradients are
reduced, then as many bytes of parameters gathered; nobody pauses at every other step); or the
longer gaps are longer by less than half (an optimizer's update between micro-batches; a pause is
longer).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.classes import Component, TrafficClass
from llmprism.methods.prism.cycles import Division, Traffic, divisions
from llmprism.methods.prism.evaluations import beyond_steps
from llmprism.methods.prism.messages import same_messages, several_collectives
from llmprism.methods.prism.parts import regularity
from llmprism.methods.prism.updates import hardly_rests, holds_updates
from llmprism.numerics.arrays import Codes, Floats, Ints

FEWEST = 3
CHANCE, RARE = 0.05, 1e-4  # of longer gaps at equal distances: what is looked at, and believed
TICKS = 2  # of the clock: differences of gaps that rounding makes
PHASES = 2  # a step may reduce gradients and gather as many bytes of parameters
LASTING = 0.4  # share of the time of the longest class
UNCLEAR = 1.5  # clarity below which a class may have been cut in the wrong place
MOSTLY = 0.8  # share of silences between steps that two classes have in common
CLEARER = 3.0  # ratio of clarities from which the reference is believed rather than a class
SAME_SPREAD = 0.02  # of a part: difference in spread that decides nothing
_GOOD = 0.5  # quality of a division that is believed
_CLOSE = 0.5  # share of the best vote that makes a coarser count worth a look
_NEAR = 0.03  # difference in votes that decides nothing
_UPDATE = 1.5  # gaps longer by this much are more than an optimizer's update


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
    own = [_of_count(divisions_, count) for divisions_ in proposed]
    reference = max(range(len(own)), key=lambda i: _standing(own[i]))
    best = own[reference]
    assert best is not None
    lead = component.classes[reference].traffic
    borders = _borders(component, lead, best)
    step_of = [
        _assigned(one.traffic, division, lead, best, borders)
        for one, division in zip(component.classes, own, strict=True)
    ]
    start, end = _extent(lead, best)
    return Stepping(count, best.quality, reference, tuple(step_of), start, end)


def _lasting(component: Component) -> list[bool]:
    """Which classes are active for a good part of the component's time, and not only once."""
    spans = []
    for one in component.classes:
        moved = np.cumsum(one.traffic.size, dtype=np.float64)
        middle = np.searchsorted(moved, moved[-1] * np.array([0.05, 0.95]))
        spans.append(float(np.diff(one.traffic.start_ns[middle])[0]))
    return [span >= LASTING * max(spans) for span in spans]


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
            if best.quality < _GOOD or several_collectives(one, best):
                continue
            side = votes if same_messages(one, best) else others
            vote = best.weight * (1 - count / (len(one.traffic) + 1))
            side[count] = side.get(count, 0.0) + vote
    votes = {count: vote + others.get(count, 0.0) for count, vote in votes.items()}
    if not votes:
        return _agreed_in_time(classes, proposed)
    top = max(votes.values())
    chosen = max(votes, key=lambda count: (votes[count], count))
    counts = sorted(c for c, vote in votes.items() if vote >= _CLOSE * top)
    paused = [c for c in counts if _is_paused(classes, proposed, c, chosen)]
    if paused:
        return max(paused, key=lambda count: votes[count])
    chosen = max(c for c in counts if c % chosen == 0 and votes[c] >= (1 - _NEAR) * top)
    for coarser in reversed([c for c in counts if c < chosen]):
        if chosen % coarser == 0 and _is_step(classes, proposed, chosen, coarser):
            chosen = coarser
    return chosen


def _by_count(own: list[Division]) -> dict[int, list[Division]]:
    """Divisions of one class by their number of parts, from FEWEST on."""
    alike: dict[int, list[Division]] = {}
    for division in own:
        if len(division) >= FEWEST:
            alike.setdefault(len(division), []).append(division)
    return alike


def _is_step(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], fine: int, coarse: int
) -> bool:
    """Whether parts of the fine division are only pieces of a step."""
    chance = 1 / comb(fine - 1, coarse - 1)
    if chance > CHANCE:
        return False
    clarity, atomic, apart, restless = np.inf, True, chance < RARE, False
    for one, own in zip(classes, proposed, strict=True):
        coarser, finer = _of_count(own, coarse), _of_count(own, fine)
        if coarser is None or coarser.clarity <= 1.0:  # its gaps are not longer than all others
            return False
        if finer is not None and finer.evaluated and not coarser.evaluated:
            return False  # the coarser parts are several steps and an evaluation
        if finer is not None and holds_updates(one.traffic, finer):
            return False
        restless |= finer is not None and hardly_rests(one.traffic, finer, coarser)
        clarity = min(clarity, coarser.clarity)
        atomic &= len(one.traffic) <= fine * one.connections.size * 1.2
        if finer is not None:
            apart |= _stands_apart(one.traffic, finer, coarser)
    return apart and (atomic or fine == PHASES * coarse or clarity < _UPDATE or restless)


def _stands_apart(traffic: Traffic, fine: Division, coarse: Division) -> bool:
    """Whether the gaps of the coarse division are longer by more than the others differ."""
    gap, others = _gaps_of(traffic, fine, coarse)
    if others.size == 0:
        return True
    differ = max(np.ptp(others), TICKS * clock_tick_ns(traffic.start_ns))
    return bool(gap.min() - others.max() > differ)


def _gaps_of(traffic: Traffic, fine: Division, coarse: Division) -> tuple[Ints, Ints]:
    """Gaps [ns] of the coarse division, and those of the fine one inside its parts."""
    gap = traffic.start_ns[1:] - np.maximum.accumulate(traffic.end_ns)[:-1]
    return gap[coarse.cuts - 1], gap[np.setdiff1d(fine.cuts, coarse.cuts) - 1]


def _is_paused(
    classes: tuple[TrafficClass, ...], proposed: list[list[Division]], fine: int, coarse: int
) -> bool:
    """Whether the coarse division shows only pauses between some parts of the fine one.

    Every class that shows the coarse parts shows the fine ones, in equal groups.
    """
    if fine <= coarse or _is_step(classes, proposed, fine, coarse):
        return False
    for own in proposed:
        finer, coarser = _of_about(own, fine), _of_about(own, coarse)
        if coarser is not None and (finer is None or not _in_groups(finer, coarser)):
            return False
    return True


def _of_about(own: list[Division], count: int) -> Division | None:
    """The good division of so many parts, or of one more or less: records begin in some part."""
    near = [d for d in own if abs(len(d) - count) <= 1 and d.quality >= _GOOD]
    return min(near, key=lambda d: (abs(len(d) - count), -d.weight), default=None)


def _in_groups(fine: Division, coarse: Division) -> bool:
    """Whether each coarse part but the first and the last holds as many fine parts, over one."""
    held = np.diff(np.searchsorted(fine.cuts, coarse.cuts))
    alike = np.isin(coarse.cuts, fine.cuts).all() and held.size > 0
    return bool(alike) and held.min() == held.max() > 1


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


def _of_count(own: list[Division], count: int) -> Division | None:
    alike = [d for d in own if len(d) == count]
    return max(alike, key=lambda d: (d.weight, d.clarity)) if alike else None


def _standing(division: Division | None) -> tuple[float, float]:
    return (-1.0, 0.0) if division is None else (round(division.quality, 1), division.clarity)


def _extent(traffic: Traffic, division: Division) -> tuple[Ints, Ints]:
    """First start and last end of each part [ns]."""
    edges = np.concatenate(([0], division.cuts))
    return traffic.start_ns[edges], np.maximum.reduceat(traffic.end_ns, edges)


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
    start, end = _extent(traffic, own)
    lead_start, lead_end = _extent(lead, best)
    common = np.minimum(start[1:], lead_start[1:]) - np.maximum(end[:-1], lead_end[:-1])
    return bool((common >= 0).mean() >= MOSTLY)


def _borders(component: Component, lead: Traffic, best: Division) -> tuple[Ints, ...]:
    """Times [ns] that may part the steps, each of shape (steps - 1,).

    Right after a part of the reference, at the begin of its next one, and in between where no
    class moves anything for longest.
    """
    start, end = _extent(lead, best)
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
    """Step of each record by those of the ``borders`` that make volumes most equal."""
    choices: list[tuple[float, Codes]] = []
    for one in borders:
        step = np.searchsorted(one, traffic.start_ns, side="right").astype(np.int32)
        volumes = np.bincount(step, traffic.size, one.size + 1).astype(np.float64)
        choices.append((_spread(volumes), step))
    return min(choices, key=lambda choice: choice[0])[1]


def _spread(volumes: Floats) -> float:
    """How unequal parts are, usually and on average, over the median part."""
    median = float(np.median(volumes))
    away = np.abs(volumes - median)
    return float(np.median(away) + away.mean()) / max(median, 1.0)
