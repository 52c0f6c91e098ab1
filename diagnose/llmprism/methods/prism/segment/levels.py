"""Levels of a lane: thresholds on its silences that divide it into equal parts.

A lane is silent between messages, between micro-batches, between steps, and longer after a save or
an evaluation. Each threshold on silences is a level. Its quality is the share of parts, and of
bytes, that are equal, times the share of its silences at which nothing is under way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.parameters import (
    CONTRAST,
    EQUAL_BYTES,
    EXACT_BYTES,
    FEWEST_STEPS,
    MICRO_BATCH,
    MOST_MICRO_BATCHES,
    NEAR_BEST,
    STEPS_OF_MESSAGES,
    SYSTEMATIC,
    THRESHOLDS,
)
from llmprism.methods.prism.segment.balance import Balance
from llmprism.methods.prism.segment.lanes import Lane
from llmprism.numerics.arrays import Floats, Ints


@dataclass(frozen=True)
class Level:
    """One division of a lane into parts.

    Attributes
    ----------
    cuts : records that begin a part, without the first, shape (parts - 1,).
    quality : share of equal parts, of their bytes, and of clean cuts, multiplied.
    deviation : median relative deviation of the bytes of a part.
    contrast : log ratio of the shortest silence between parts and the longest inside them.
    period_ns : median time between begins of parts.
    silence_ns : median silence between parts.
    """

    cuts: Ints
    quality: float
    deviation: float
    contrast: float
    period_ns: float
    silence_ns: float

    @property
    def silent_share(self) -> float:
        """Share of the time that the silences between parts take."""
        return self.silence_ns / self.period_ns

    @property
    def regular(self) -> float:
        """How well the lane repeats: a few parts are equal by chance."""
        return self.quality * (1 - 2 / self.parts)

    @property
    def parts(self) -> int:
        """Number of parts."""
        return self.cuts.size + 1


def levels_of(lane: Lane, balance: Balance | None) -> list[Level]:
    """Every level of ``lane``, from fine to coarse."""
    at = lane.silent
    gap = lane.gaps[at - 1] if at.size else np.zeros(0)
    clean = np.ones(at.size, bool)
    if balance is not None and at.size:
        clean = balance.clean(lane.reached[at - 1], lane.start[at])
    found = []
    for threshold in _thresholds(gap):
        cut = gap > threshold
        if cut.sum() >= 2:
            found.append(_level(lane, at, gap, cut, float(clean[cut].mean())))
    return found


def _thresholds(gap: Floats) -> Floats:
    """Silences between which thresholds lie, at the widest steps of their logarithm, ascending."""
    ordered = np.sort(gap)
    if ordered.size < 2:
        return np.zeros(1)
    step = np.diff(np.log(ordered))
    widest = np.sort(np.argsort(-step, kind="stable")[:THRESHOLDS])
    widest = widest[step[widest] > 0]
    return np.concatenate(([0.0], np.sqrt(ordered[widest] * ordered[widest + 1])))


def _level(lane: Lane, at: Ints, gap: Floats, cut: Floats, clean: float) -> Level:
    cuts = at[cut]
    parts = np.diff(np.concatenate(([0.0], lane.sent[cuts], [lane.bytes])))
    middle = parts[1:-1] if parts.size > 3 else parts
    usual = np.median(middle)
    equal = np.abs(parts / usual - 1) <= EQUAL_BYTES
    deviation = float(np.median(np.abs(middle / usual - 1)))
    inner = np.where(cut, lane.floor, gap)
    opens = np.concatenate(([0], np.flatnonzero(cut)))
    longest = np.maximum.reduceat(np.maximum(inner, lane.floor), opens)
    contrast = np.log(np.quantile(gap[cut], 0.1) / np.quantile(longest, 0.9))
    begins = lane.start[np.concatenate(([0], cuts))]
    whole = np.ones(parts.size, bool)
    if parts.size > FEWEST_STEPS:  # the recording may cut the first and the last one off
        whole[[0, -1]] = parts[[0, -1]] >= (1 - EQUAL_BYTES) * usual
    share = equal[whole].mean() * parts[equal].sum() / parts[whole].sum()
    quality = float(share * clean)
    period = float(np.median(np.diff(begins)))
    return Level(cuts, quality, deviation, float(contrast), period, float(np.median(gap[cut])))


def preferred(levels: list[Level], answered: bool) -> Level | None:
    """The level of the steps: the coarsest good one that is no habit of the step below it.

    Where bytes under way tell micro-batches from steps (``answered``), it is the finest good one.
    """
    best = max((level.quality for level in levels if level.contrast > CONTRAST), default=0.0)
    good = [lv for lv in levels if lv.contrast > CONTRAST and lv.quality > NEAR_BEST * best]
    good = [lv for lv in good if not _is_halved(lv, good)]
    chosen: Level | None = None
    for level in _neighbourhoods(sorted(good, key=lambda lv: -lv.parts)):
        if chosen is None or not (answered or _is_habit(chosen, level)):
            chosen = level
    return chosen


def _is_halved(fine: Level, good: list[Level]) -> bool:
    """Whether parts differ in bytes far more than those of a coarser level: they are no steps."""
    exact = min(lv.deviation for lv in good if lv.parts <= fine.parts)
    return fine.deviation > SYSTEMATIC * max(exact, EXACT_BYTES[0])


def _neighbourhoods(levels: list[Level]) -> list[Level]:
    """The best level of each neighbourhood in number of parts, from fine to coarse."""
    found: list[Level] = []
    for level in levels:
        if found and found[-1].parts <= 1.5 * level.parts:
            if level.quality > found[-1].quality:
                found[-1] = level
        else:
            found.append(level)
    return found


def _is_habit(fine: Level, coarse: Level) -> bool:
    """Whether the silences of ``coarse`` are saves or evaluations after some steps of ``fine``.

    Messages become a step if the silence between steps is a larger share of time than that between
    messages. Micro-batches become a step if the silence between steps is hardly longer.
    """
    if coarse.parts < 4 and fine.quality > 0.5:
        return True
    if coarse.silent_share >= fine.silent_share:
        return False
    if fine.parts > MOST_MICRO_BATCHES * coarse.parts:
        return coarse.parts < STEPS_OF_MESSAGES or coarse.quality < fine.quality
    extra = (coarse.silence_ns - fine.silence_ns) / fine.period_ns
    return extra > MICRO_BATCH
