"""Which step of a component each record of its classes belongs to.

The reference's division parts its own records. Another class is divided in its own way if that is
clear, or else in time, by those borders between the parts of the reference that make its volumes
most equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.evaluations import beyond_steps
from llmprism.methods.prism.parameters import EQUAL, MOSTLY
from llmprism.methods.prism.steps.proposals import extent, of_count
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

UNCLEAR = 1.5  # clarity below which a class may have been cut in the wrong place
CLEARER = 3.0  # ratio of clarities from which the reference is believed rather than a class
WITHIN = 0.75  # of a step: what belongs to one is not farther apart


def assigned(
    traffic: Traffic,
    own: Division | None,
    lead: Traffic,
    best: Division,
    borders: Sequence[Ints],
    proposed: Sequence[Division] = (),
) -> Codes:
    """Step of each record: by the class's own division, or by that of the reference.

    ``own`` is what the class has of as many parts as the reference, out of all ``proposed``.

    A class may have equal parts in several ways, a step's end shifted into the next one. The
    reference's cuts count if they make parts as equal, and the class is unclear about its cuts
    while the reference is clear, or the class moves on while the reference rests.
    """
    if own is None or not own.quality > 0:
        others = [one for one in proposed if own is None or _ends_small(one).any()]
        beside = _beside_partial(traffic, others, *extent(lead, best))
        if beside is not None or own is None:
            return by_windows(traffic, borders, len(best)) if beside is None else beside
    parts = own.part_of(len(traffic))
    if own.evaluated:
        beyond = beyond_steps(traffic.couple, traffic.forth, parts, traffic.size)
        return np.where(beyond, -1, parts).astype(np.int32)
    unclear = own.clarity < UNCLEAR and best.clarity >= CLEARER * own.clarity
    if not unclear and _rest_together(traffic, own, lead, best):
        return parts
    windows = by_windows(traffic, borders, len(best))
    spreads, by_line = (
        [each(step, traffic, len(best)) for step in (windows, parts)]
        for each in (_spread_of_all, _spreads_of_lines)
    )
    as_equal = spreads[0] <= spreads[1] + EQUAL
    return windows if as_equal and (by_line[0] <= by_line[1] + EQUAL).all() else parts


def _beside_partial(
    traffic: Traffic, proposed: Sequence[Division], start: Ints, end: Ints
) -> Codes | None:
    """Step of each record of a class that shows one part more or fewer than the reference.

    Where records begin within a step, one of two classes may have moved all that it moves in it,
    while the other has not, and where they end within one, one of them may not have begun.
    ``start`` and ``end`` [ns] are those of the parts of the reference. What moves before the first
    or after the last of them has no step. None where no division of the class is like that.
    """
    clear = [one for one in proposed if one.quality > 0 and (one.clarity >= CLEARER or is_cut(one))]
    for own in (of_count(clear, start.size + 1), of_count(clear, start.size - 1)):
        if own is None:
            continue
        begins, ends = extent(traffic, own)
        at_end = own.volumes[-1] < own.volumes[0] if is_cut(own) else None
        shift = _nearer_shift(begins + ends, start + end, at_end)
        if shift is not None:
            step = own.part_of(len(traffic)) + shift
            return np.where((step >= 0) & (step < start.size), step, -1).astype(np.int32)
    return None


def _ends_small(division: Division) -> Bools:
    """Whether the first part is smaller than others are, and whether the last one is."""
    usual = np.median(division.volumes)
    small: Bools = division.volumes[[0, -1]] < (1 - EQUAL) * usual
    return small


def is_cut(division: Division) -> bool:
    """Whether all parts are equal but the first or the last, which the records show in part.

    Where both are smaller, the cuts may be inside steps.
    """
    away = division.volumes / np.median(division.volumes) - 1
    equal = (np.abs(away[1:-1]) <= EQUAL).all() and away.max() <= EQUAL
    return bool(equal and _ends_small(division).sum() == 1)


def _nearer_shift(middles: Ints, others: Ints, at_end: bool | None = None) -> int | None:
    """By how many places the first ones go with those of the ``others`` that are nearest in time.

    There are one more or fewer of them. Where one kind of traffic follows the other, both may be
    nearly as far; which of them begins a step is settled when kinds are known
    (:mod:`~llmprism.methods.prism.phases.gradients_last`). If one more of them is known to be at
    the end, or at the begin (``at_end``), the others go together. None if none of the places holds
    throughout, because all records of some step were lost.
    """
    most = min(middles.size, others.size)
    places = (-1, 0) if middles.size > others.size else (0, 1)
    away = [
        np.abs(middles[max(-at, 0) :][:most] - others[max(at, 0) :][:most]).astype(np.float64)
        for at in places
    ]
    nearer = min((0, 1), key=lambda i: float(np.median(away[i])))
    if at_end is not None and middles.size > others.size:
        nearer = int(at_end)
    throughout = away[nearer] < WITHIN * np.median(np.diff(others))
    return places[nearer] if throughout.all() else None


def _rest_together(traffic: Traffic, own: Division, lead: Traffic, best: Division) -> bool:
    """Whether the silences between the parts of two divisions overlap, nearly all of them."""
    return _overlap(_silences(traffic, own), _silences(lead, best))


def _silences(traffic: Traffic, division: Division) -> tuple[Ints, Ints]:
    """Begin and end of the silences between the parts of a division [ns]."""
    start, end = extent(traffic, division)
    return end[:-1], start[1:]


def _overlap(silences: tuple[Ints, Ints], others: tuple[Ints, Ints]) -> bool:
    """Whether nearly all ``silences`` overlap with the one of the ``others`` at the same place."""
    common = np.minimum(silences[1], others[1]) - np.maximum(silences[0], others[0])
    return bool((common >= 0).mean() >= MOSTLY)


def borders_of(component: Component, start: Ints, end: Ints) -> tuple[Ints, ...]:
    """Times [ns] that may part the steps, each of shape (steps - 1,).

    Right after a part of the reference, at the begin of its next one, and in between where no
    class moves anything for longest. ``start`` and ``end`` [ns] are those of its parts. If steps
    end with its parts, so does the last one: what moves later belongs to a step that was never
    finished. There, the shape is (steps,).
    """
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
    return end, before, middle


def by_windows(traffic: Traffic, borders: Sequence[Ints], count: int) -> Codes:
    """Step of each record by those of the ``borders`` that make volumes most equal, -1 after all.

    Borders at which the class moves something count only if it does so at all of them. Records may
    end within a step before the class moves in it: then the last step is empty.
    """
    choices: list[tuple[tuple[float, bool], Codes]] = []
    resting = [one for one in borders if _rests(traffic, one) >= MOSTLY]
    for one in resting or borders:
        step = np.searchsorted(one, traffic.start_ns, side="right").astype(np.int32)
        step[step == count] = -1
        volumes = _volumes(step, traffic, count)
        choices.append(((float(_spread(volumes)), bool(volumes[0] < volumes[-1])), step))
    return min(choices, key=lambda choice: choice[0])[1]


def _rests(traffic: Traffic, border: Ints) -> float:
    """Share of the times in ``border`` at which nothing of the traffic moves."""
    until = np.maximum.accumulate(traffic.end_ns)
    before = np.searchsorted(traffic.start_ns, border, side="right") - 1
    return float(np.mean((before < 0) | (until[before] <= border))) if border.size else 1.0


def _volumes(step: Codes, traffic: Traffic, count: int) -> Floats:
    """Bytes of each step."""
    known = step >= 0
    return np.bincount(step[known], traffic.size[known], count).astype(np.float64)


def _spread_of_all(step: Codes, traffic: Traffic, count: int) -> Floats:
    """How unequal the steps of a class are."""
    return _spread(_volumes(step, traffic, count))


def _spreads_of_lines(step: Codes, traffic: Traffic, count: int) -> Floats:
    """How unequal the steps of each connection of a class are."""
    line = np.unique(traffic.couple * 2 + traffic.forth, return_inverse=True)[1]
    known, lines = step >= 0, int(line.max(initial=-1)) + 1
    cell = line[known] * count + step[known]
    volumes = np.bincount(cell, traffic.size[known], lines * count).reshape(lines, count)
    return _spread(volumes.astype(np.float64))


def _spread(volumes: Floats) -> Floats:
    """How unequal parts are, usually and on average, over the median part; shape (..., parts)."""
    median = np.asarray(np.median(volumes, axis=-1))
    away = np.abs(volumes - median[..., None])
    unequal: Floats = (np.median(away, axis=-1) + away.mean(axis=-1)) / np.maximum(median, 1.0)
    return unequal
