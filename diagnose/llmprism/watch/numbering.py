"""Which step of a job each step of a window is, and at which place of the period steps end.

A window and those before have the steps of the time in which they overlap. Steps that end at the
same time are the same, and the numbers go on from there. Some windows place the ends of all steps
otherwise than those before, since little in them tells where in the period a step ends. Then the
place is kept that the window with the most steps has shown.

A window with few steps may divide a job otherwise than a longer one: while it begins, its
micro-batches can look like steps. So the steps of a new division *count* only when a window with
more of them has it too, or when no window can have more. If other steps counted at the same time, a
second window has to have it in any case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from llmprism.batches.chains import SAME_END, period_of
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.watch.state import KnownJob
from llmprism.watch.window import Span

ENOUGH = 16  # steps: so many are seldom the micro-batches of few steps
_LEAST = 4  # steps, and
GROWN = 1.5  # times as many as at first show that these are the steps
_MARGIN = 3.0  # steps from an end of what is shown to the first one or from the last one
_MOSTLY = 0.5  # of the steps of an overlap have to agree
_FEWEST = 3  # steps that show another place,
_SCATTER = 0.05  # of a step: by which the differences of their ends vary at most
_MOVED = 0.02  # of a step: a smaller difference is no other place
_SURER = 1.25  # times the steps of the window that showed the place: then another one holds


@dataclass(frozen=True)
class Numbering:
    """How the steps of a window go on from those before.

    Attributes
    ----------
    shift : to add to their numbers.
    offset_ns : to take from their times, so that steps keep their place [ns].
    support : steps of the window that has shown the place.
    first_count : steps of the first window with a division that does not count yet.
    counts : whether the steps count.
    """

    shift: int
    offset_ns: int
    support: int
    first_count: int
    counts: bool


def numbered(known: KnownJob, ends_ns: pd.Series, shown: Span) -> Numbering:
    """Number the steps by their ends [ns], which are in order, that a window has ``shown``."""
    count, counted_ns = len(ends_ns), known.recent_ns | known.ends_ns
    match = _matched(counted_ns, ends_ns)
    if match is None:
        was_so = _matched(known.candidate_ns, ends_ns) is not None
        first_count = known.first_count if was_so else count
        counts = _is_long(ends_ns, first_count, shown, was_so)
        if int(ends_ns.iloc[0]) < max(counted_ns.values(), default=0):
            counts &= was_so  # these steps are others than those that counted at the same time
        return Numbering(_after_last(known, ends_ns), 0, count, first_count, counts)
    is_moved = abs(match.offset_ns) > _MOVED * period_of(ends_ns, float("inf"))
    if is_moved and count < _SURER * known.support:
        return Numbering(match.shift, match.offset_ns, known.support, 0, counts=True)
    support = count if is_moved else max(count, known.support)
    return Numbering(match.shift, 0, support, 0, counts=True)


def _is_long(ends_ns: pd.Series, first_count: int, shown: Span, was_so: bool) -> bool:
    """Whether no longer record can divide a job otherwise, or none will come.

    ``was_so`` is whether a window before has divided it so.
    """
    count, margin_ns = len(ends_ns), _MARGIN * period_of(ends_ns, 0.0)
    is_grown = count >= max(_LEAST, GROWN * first_count)
    is_full = bool(ends_ns.iloc[0] <= shown.start_ns + margin_ns)
    is_over = was_so and bool(ends_ns.iloc[-1] < shown.end_ns - margin_ns)
    return is_grown or is_full or is_over or count >= ENOUGH


@dataclass(frozen=True)
class _Match:
    """By how much the numbers of steps are higher than those of a window, and ends earlier [ns]."""

    shift: int
    offset_ns: int


def _matched(known_ns: Mapping[int, int], ends_ns: pd.Series) -> _Match | None:
    """How known steps and those of a window are the same; None if they are not.

    They are the same if most of an overlap end at the same time, or earlier or later by the same.
    """
    period_ns = period_of(ends_ns, float("inf"))
    numbers, old_ns = np.array([*known_ns], np.int64), np.array([*known_ns.values()], np.float64)
    steps, new_ns = ends_ns.index.to_numpy(np.int64), ends_ns.to_numpy(np.float64)
    if not old_ns.size:
        return None
    margin_ns = period_ns / 2 if np.isfinite(period_ns) else 0.0
    first_ns = max(old_ns.min(), new_ns.min()) - margin_ns
    last_ns = min(old_ns.max(), new_ns.max()) + margin_ns
    old, new = ((one >= first_ns) & (one <= last_ns) for one in (old_ns, new_ns))
    if not old.any() or not new.any():
        return None
    place = np.abs(old_ns[old][None, :] - new_ns[new][:, None]).argmin(axis=1)
    later_ns, shift = new_ns[new] - old_ns[old][place], numbers[old][place] - steps[new]
    least = _MOSTLY * max(int(old.sum()), int(new.sum()))
    apart_ns = np.abs(later_ns - float(np.median(later_ns)))
    for same in (
        np.abs(later_ns) <= SAME_END * period_ns,
        (apart_ns <= _SCATTER * period_ns) & (later_ns.size >= _FEWEST),
    ):
        best = _most(shift[same], least)
        if best is not None:
            return _Match(best, _common_ns(later_ns[same], period_ns))
    return None


def _most(shifts: Ints, least: float) -> int | None:
    """What most steps are numbered higher by; None if they are fewer than the ``least``."""
    best, votes = Counter(shifts.tolist()).most_common(1)[0] if shifts.size else (0, -1)
    return best if votes >= least else None


def _common_ns(later_ns: Floats, period_ns: float) -> int:
    """By how much all steps end later [ns]; 0 if they differ in that, or are few."""
    offset_ns = float(np.median(later_ns))
    alike: Bools = np.abs(later_ns - offset_ns) <= _SCATTER * period_ns
    return round(offset_ns) if later_ns.size >= _FEWEST and alike.all() else 0


def _after_last(known: KnownJob, ends_ns: pd.Series) -> int:
    """What to add to the numbers of steps that are not those of the windows before."""
    if known.last_step < 0:
        return -int(ends_ns.index[0])
    last_ns = known.recent_ns.get(known.last_step, max(known.ends_ns.values(), default=0))
    before = int((ends_ns <= last_ns + SAME_END * period_of(ends_ns, 0.0)).sum())
    return known.last_step + 1 - before - int(ends_ns.index[0])
