"""The window of each border between two steps: when all lanes of a component are silent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.segment.lanes import Lane, extent_of
from llmprism.methods.prism.segment.parameters import (
    CANDIDATE_SILENCES,
    CLEAN_WORTH,
    COMPARED_LANES,
    DEPTH_WORTH,
    FEW_SILENT,
    GRADIENTS_WORTH,
    LATE_COST,
    WIDTH_WORTH,
    SOON,
)
from llmprism.methods.prism.segment.balance import Balance
from llmprism.methods.prism.segment.programme import best_path, exactness
from llmprism.methods.prism.segment.vote import Election
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


@dataclass(frozen=True)
class _Offers:
    """Windows that may be one border: begin, end and middle [ns], and log likelihood of each."""

    low: Floats
    high: Floats
    middle: Floats
    likely: Floats


def find_borders(
    lanes: list[Lane], members: list[int], election: Election, balances: dict[int, Balance]
) -> Borders:
    """The border windows of the lanes ``members``."""
    lead, level = lanes[election.lead], election.levels[election.lead]
    extent = extent_of([lanes[lane] for lane in members])
    low, high = lead.silence(level.cuts, extent)
    silences = _silences(lanes, members, election, balances)
    ranges = [
        (np.searchsorted(b, low, "right"), np.searchsorted(a, high, "left"))
        for a, b in zip(silences.low, silences.high, strict=True)
    ]
    if election.lead not in balances:
        high = np.minimum(high, low + np.maximum(SOON * level.period_ns, SOON * (high - low)))
    leads = bool(silences.gradients[members.index(election.lead)])
    offers = [
        _offers(low[k], high[k], silences, [(a[k], b[k]) for a, b in ranges], balances, level.period_ns, leads)
        for k in range(low.size)
    ]
    outside = int(0 in level.cuts), int(lead.start.size in level.cuts)
    chosen = _together(lanes, members, offers, outside)
    left = np.array([offer.low[i] for offer, i in chosen])
    right = np.array([offer.high[i] for offer, i in chosen])
    begin, end = extent
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
        every = np.union1d(at, (0, lanes[lane].start.size))
        begin, end = lanes[lane].silence(every, (-np.inf, np.inf))
        low.append(begin)
        high.append(end)
    rate = np.array([lanes[lane].bytes for lane in members])
    unanswered = np.array([lane not in balances for lane in members])
    gradients = unanswered & (rate >= 0.5 * rate.max())
    return _Silences(low, high, gradients & (gradients.sum() > 1))


def _offers(
    low: float,
    high: float,
    silences: _Silences,
    ranges: list[tuple[int, int]],
    balances: dict[int, Balance],
    period: float,
    leads_heavy: bool,
) -> _Offers:
    """The windows within a silence of the lead lane, and how much like a border each is."""
    lane = np.concatenate([np.full(b - a, i) for i, (a, b) in enumerate(ranges)])
    a = np.concatenate([silences.low[i][x:y] for i, (x, y) in enumerate(ranges)])
    b = np.concatenate([silences.high[i][x:y] for i, (x, y) in enumerate(ranges)])
    a, b = np.maximum(a, low), np.minimum(b, high)
    edges = np.unique(np.concatenate((a, b)))
    middle = (edges[1:] + edges[:-1]) / 2
    depth = np.searchsorted(np.sort(a), middle, "right") - np.searchsorted(np.sort(b), middle)
    heavy = silences.gradients[lane.astype(int)]
    after_heavy = np.isin(edges[:-1], a[heavy & (a > low)])
    after_heavy[:1] |= leads_heavy
    after_heavy &= depth >= FEW_SILENT * depth.max()
    likely = DEPTH_WORTH * (depth / depth.max() - 1) + GRADIENTS_WORTH * after_heavy
    best = np.sort(np.argsort(-likely, kind="stable")[:CANDIDATE_SILENCES])
    last = np.array([_while_as_deep(depth, int(i)) for i in best])
    width = edges[last + 1] - edges[best]
    likely = likely[best] + _clean(middle[best], balances)
    likely -= LATE_COST * (edges[best] - low) / period
    likely += WIDTH_WORTH * np.log(width / width.max())
    return _Offers(edges[best], edges[last + 1], middle[best], likely)


def _while_as_deep(depth: Ints, first: int) -> int:
    less = np.flatnonzero(depth[first:] < depth[first])
    return int(first + less[0] - 1) if less.size else depth.size - 1


def _together(
    lanes: list[Lane], members: list[int], offers: list[_Offers], outside: tuple[int, int]
) -> list[tuple[_Offers, int]]:
    """The window of each border: by itself, and by the bytes of all lanes between two of them.

    A first and a last border that are ``outside`` of all records of the lead lane are none if the
    recording begins or ends with a step.
    """
    if not offers:
        return []
    heaviest = sorted(members, key=lambda i: -lanes[i].bytes)[:COMPARED_LANES]
    sent = [
        np.array([lanes[i].sent[np.searchsorted(lanes[i].start, offer.middle)] for i in heaviest])
        for offer in offers
    ]
    likeliest = [int(np.argmax(offer.likely)) for offer in offers]
    first = np.array([each[:, i] for each, i in zip(sent, likeliest, strict=True)])
    steps = np.diff(first, axis=0).T
    usual = np.median(steps, axis=1) if steps.size else np.zeros(len(heaviest))
    told = usual > 0
    if not told.any():
        return list(zip(offers, likeliest, strict=True))
    total = np.array([lanes[i].bytes for i in heaviest])[told] / usual[told]
    sent = [each[told] / usual[told, None] for each in sent]
    exact = exactness(steps[told] / usual[told, None])
    ways = [
        slice(a, len(offers) - b)
        for a in range(outside[0] + 1)
        for b in range(outside[1] + 1)
        if len(offers) > a + b
    ]
    paths = [best_path([o.likely for o in offers[way]], sent[way], total, exact) for way in ways]
    value, path, way = max(
        ((value, path, way) for (value, path), way in zip(paths, ways, strict=True)),
        key=lambda each: each[0],
    )
    return list(zip(offers[way], path, strict=True))


def _clean(moments: Floats, balances: dict[int, Balance]) -> Floats:
    """How likely a border is by what is under way at each of the moments."""
    if not balances:
        return np.zeros(moments.size)
    clean = np.mean([each.clean(moments, moments) for each in balances.values()], axis=0)
    worth: Floats = CLEAN_WORTH * (clean - 1)
    return worth
