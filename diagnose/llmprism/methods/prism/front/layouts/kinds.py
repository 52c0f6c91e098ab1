"""The kind of each lane of a job, by how the two directions of a pair follow each other in a step.

A ring sends one way. Of the two directions of a pair of pipeline stages, one begins first, ends
first and has its mean first, in every step. In a closed directed cycle of such pairs a ring gathers
one way and reduces the other.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.front.observe.exporter import Exporter
from llmprism.methods.prism.front.parameters import (
    EQUAL_RATES,
    ORDERED_SHARE,
    USUALLY_FIRST,
)
from llmprism.methods.prism.front.segment.borders import Borders
from llmprism.methods.prism.front.segment.cutting import CutLane
from llmprism.numerics.arrays import Floats
from prism_common.kinds import DP, OTHER, PP

Pair = tuple[int, int]


def classify(cut: list[CutLane], borders: Borders, exporter: Exporter) -> list[str]:
    """Kind of each lane."""
    at = {(c.lane.src, c.lane.dst): i for i, c in enumerate(cut)}
    kinds = [DP if np.mean(c.active) >= 0.5 else OTHER for c in cut]
    least = max(min(0.004 * borders.period_ns, 3e6), 2 * exporter.tick_ns)
    pairs = [(i, at[(d, s)]) for (s, d), i in at.items() if (d, s) in at and s < d]
    pairs = [(i, j) for i, j in pairs if kinds[i] == kinds[j] == DP]
    pairs = [(i, j) for i, j in pairs if not _are_simultaneous(cut[i], cut[j], least)]
    lead = np.array([_lead(cut[i], cut[j], least) for i, j in pairs])
    rate = np.array([_rate(cut[i]) + _rate(cut[j]) for i, j in pairs])
    for members in _classes(rate):
        ordered = lead[members] != 0
        if ordered.mean() <= ORDERED_SHARE or _cycles(
            [pairs[m] for m in members], lead[members], cut
        ):
            continue
        for m in members:
            kinds[pairs[m][0]] = kinds[pairs[m][1]] = PP
    return kinds


def _rate(cut: CutLane) -> float:
    """Usual bytes in a step."""
    active = cut.active
    return float(np.median(cut.bytes[active])) if active.any() else 0.0


def _classes(rate: Floats) -> list[list[int]]:
    """Pairs with about the same bytes in a step."""
    order = np.argsort(rate, kind="stable")
    found: list[list[int]] = []
    for i in order:
        if found and rate[i] <= (1 + EQUAL_RATES) * rate[found[-1][0]]:
            found[-1].append(int(i))
        else:
            found.append([int(i)])
    return found


def _delays(lane: CutLane, back: CutLane) -> Floats:
    """First, mean and last time of ``back`` less those of ``lane`` [ns], shape (3, steps)."""
    delays = np.stack(
        [
            back.first() - lane.first(),
            back.mean() - lane.mean(),
            back.last() - lane.last(),
        ]
    )
    known: Floats = delays[:, ~np.isnan(delays).any(axis=0)]
    return known


def _are_simultaneous(lane: CutLane, back: CutLane, least: float) -> bool:
    """Whether both directions send at once in nearly every step, as a ring of two does."""
    delays = np.abs(_delays(lane, back))
    return bool(delays.size) and bool(np.mean((delays < least).all(axis=0)) >= USUALLY_FIRST)


def _lead(lane: CutLane, back: CutLane, least: float) -> int:
    """1 if ``lane`` is first in nearly every step, -1 if ``back`` is, 0 if neither."""
    differences = _delays(lane, back)
    if not differences.size:
        return 0
    for sign in (1, -1):
        if np.mean((sign * differences >= least).all(axis=0)) >= USUALLY_FIRST:
            return sign
    return 0


def _cycles(pairs: list[Pair], lead: Floats, cut: list[CutLane]) -> bool:
    """Whether the directions that lead form closed cycles, as a ring that gathers and reduces."""
    after: dict[int, int] = {}
    for (i, j), sign in zip(pairs, lead, strict=True):
        if sign:
            lane = cut[i if sign > 0 else j].lane
            if lane.src in after:
                return False
            after[lane.src] = lane.dst
    if len(after) < 3:
        return False
    return set(after) == set(after.values())
