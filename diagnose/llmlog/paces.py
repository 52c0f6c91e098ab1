"""How long iterations took, and whether they became longer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median

from llmlog.clocks import seconds

_FEWEST = 2
"""Iterations on either side of a change."""
_SLOWER = 1.1
_DEVIATIONS = 5.0
_BLOCKS = 250
_EXACT = 20
"""A length is known from times whose resolution is at most this part of it."""


@dataclass(frozen=True)
class Iteration:
    """A completed iteration: its number, length and time if known, and the line that says so.

    ``size`` is the number of samples of its batch, if the line has it.
    """

    number: int
    seconds: float | None
    file: str
    line: int
    time: str = ""
    node: str | None = None
    size: int | None = None


def timed(iterations: Iterable[Iteration]) -> list[Iteration]:
    """Iterations with their lengths; of those without one, by the times of their lines."""
    found: list[Iteration] = []
    before: dict[str, tuple[int, float]] = {}
    for one in iterations:
        at_s = seconds(one.time) if one.seconds is None else None
        if at_s is None:
            found.append(one)
            continue
        number, then_s = before.get(one.file, (one.number, at_s))
        if one.number != number or one.file not in before:
            before[one.file] = one.number, at_s
        steps, past_s = one.number - number, at_s - then_s
        exact = past_s >= _EXACT * _resolution_s(one.time)
        found.append(replace(one, seconds=past_s / steps) if steps > 0 and exact else one)
    return found


def _resolution_s(time: str) -> float:
    """Of a printed time: a millisecond if it has a fraction, else a second."""
    return 0.001 if "." in time or "," in time else 1.0


def usual_s(iterations: Iterable[Iteration]) -> float | None:
    """The median length of iterations [s]; None if none is known."""
    lengths = [one.seconds for one in iterations if one.seconds is not None]
    return median(lengths) if lengths else None


def slower(iterations: Iterable[Iteration]) -> Iteration | None:
    """The first iteration from which all of the same batch size take longer, if there is one."""
    known = [one for one in iterations if one.seconds is not None]
    runs = [list(run) for _, run in groupby(known, key=lambda one: one.size)]
    return next((slow for run in runs if (slow := _slower(run)) is not None), None)


def _slower(timed: Sequence[Iteration]) -> Iteration | None:
    """The first iteration of the longer ones.

    The change lies where two medians explain the lengths best (least absolute deviations).
    It counts if the later median is a tenth longer, and five deviations from its side's median.
    """
    lengths = [one.seconds or 0.0 for one in timed]
    cuts = range(_FEWEST, len(timed) - _FEWEST + 1)
    if not cuts:
        return None
    cut = _change(lengths)
    before, after = lengths[:cut], lengths[cut:]
    usual = median(before)
    later = median(after)
    rest = [abs(s - usual) for s in before] + [abs(s - later) for s in after]
    limit = usual + max((_SLOWER - 1) * usual, _DEVIATIONS * 1.4826 * median(rest))
    return timed[cut] if later > limit else None


def _change(lengths: list[float]) -> int:
    """Where two medians explain the lengths best: among many, first by medians of blocks."""
    first, end = _FEWEST, len(lengths) - _FEWEST + 1
    if len(lengths) > 2 * _BLOCKS:
        width = -(-len(lengths) // _BLOCKS)
        block = _change([median(lengths[i : i + width]) for i in range(0, len(lengths), width)])
        first, end = max(first, (block - 1) * width), min(end, (block + 1) * width + 1)
    step = max(1, (end - first) // (2 * _BLOCKS))

    def badness(cut: int) -> float:
        return _spread(lengths[:cut]) + _spread(lengths[cut:])

    best = min(range(first, end, step), key=badness)
    if step == 1:
        return best
    return min(range(max(first, best - step), min(end, best + step + 1)), key=badness)


def _spread(lengths: list[float]) -> float:
    middle = median(lengths)
    return sum(abs(seconds - middle) for seconds in lengths)
