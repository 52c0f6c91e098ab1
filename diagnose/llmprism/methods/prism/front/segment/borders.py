"""The window of each border between two steps: when all lanes of a component are silent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.front.observe.lanes import Lane
from llmprism.methods.prism.front.parameters import (
    DEEP,
    FEW_SILENT,
    SOON,
)
from llmprism.methods.prism.front.segment.balance import Balance
from llmprism.methods.prism.front.segment.vote import Election
from llmprism.numerics.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Borders:
    """Windows of the borders between steps, shape (steps - 1,).

    Attributes
    ----------
    low, high : a border is in between [ns].
    period_ns : median time between borders.
    begin, end : first and last packet of the component [ns].
    """

    low: Floats
    high: Floats
    period_ns: float
    begin: float
    end: float

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.low.size + 1

    @property
    def middle(self) -> Floats:
        """Middle of each window [ns]."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class _Silences:
    """Silences of all lanes that may hold a border."""

    low: list[Floats]
    high: list[Floats]
    gradients: Bools  # whether the lane is a heavy one that nobody answers


def find_borders(
    lanes: list[Lane], members: list[int], election: Election, balances: dict[int, Balance]
) -> Borders:
    """The border windows of the lanes ``members``."""
    lead, level = lanes[election.lead], election.levels[election.lead]
    low, high = lead.reached[level.cuts - 1], lead.start[level.cuts]
    silences = _silences(lanes, members, election, balances)
    ranges = [
        (np.searchsorted(b, low, "right"), np.searchsorted(a, high, "left"))
        for a, b in zip(silences.low, silences.high, strict=True)
    ]
    if election.lead not in balances:
        high = np.minimum(high, low + np.maximum(SOON * level.period_ns, SOON * (high - low)))
    windows = [
        _window(low[k], high[k], silences, [(a[k], b[k]) for a, b in ranges], balances)
        for k in range(low.size)
    ]
    left, right = np.array(windows).reshape(-1, 2).T
    begin = min(float(lanes[lane].start[0]) for lane in members)
    end = max(float(lanes[lane].reached[-1]) for lane in members)
    middle = (left + right) / 2
    period = float(np.median(np.diff(middle))) if middle.size > 1 else (end - begin) / 2
    return Borders(left, right, period, begin, end)


def _silences(
    lanes: list[Lane], members: list[int], election: Election, balances: dict[int, Balance]
) -> _Silences:
    low, high = [], []
    for lane in members:
        level = election.levels.get(lane)
        at = lanes[lane].silent if level is None else level.cuts
        low.append(np.append(lanes[lane].reached[at - 1], lanes[lane].reached[-1]))
        high.append(np.append(lanes[lane].start[at], np.inf))
    rate = np.array([lanes[lane].bytes for lane in members])
    unanswered = np.array([lane not in balances for lane in members])
    gradients = unanswered & (rate >= 0.5 * rate.max())
    return _Silences(low, high, gradients & (gradients.sum() > 1))


def _window(
    low: float,
    high: float,
    silences: _Silences,
    ranges: list[tuple[int, int]],
    balances: dict[int, Balance],
) -> tuple[float, float]:
    """The moments within a silence of the lead lane at which most others are silent too."""
    lane = np.concatenate([np.full(b - a, i) for i, (a, b) in enumerate(ranges)])
    a = np.concatenate([silences.low[i][x:y] for i, (x, y) in enumerate(ranges)])
    b = np.concatenate([silences.high[i][x:y] for i, (x, y) in enumerate(ranges)])
    a, b = np.maximum(a, low), np.minimum(b, high)
    edges = np.unique(np.concatenate((a, b)))
    middle = (edges[1:] + edges[:-1]) / 2
    depth = np.searchsorted(np.sort(a), middle, "right") - np.searchsorted(np.sort(b), middle)
    heavy = silences.gradients[lane.astype(int)]
    after_heavy = np.isin(edges[:-1], a[heavy & (a > low)])
    after_heavy &= depth >= FEW_SILENT * depth.max()
    open_to = after_heavy if after_heavy.any() else np.ones(depth.size, bool)
    able = np.flatnonzero(open_to & (depth >= DEEP * depth[open_to].max()))
    chosen = int(able[_clean(middle[able], balances)][0])
    last = chosen
    while last + 1 < depth.size and depth[last + 1] >= depth[chosen]:
        last += 1
    return float(edges[chosen]), float(edges[last + 1])


def _clean(moments: Floats, balances: dict[int, Balance]) -> Ints:
    """Indices of the moments at which most pairs have nothing under way."""
    if moments.size == 1 or not balances:
        return np.arange(moments.size)
    clean = sum(each.clean(moments, moments).astype(int) for each in balances.values())
    return np.flatnonzero(clean == np.max(clean))
