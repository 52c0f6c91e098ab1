"""The window of each border between two steps: when all lanes of a component are silent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.parameters import (
    CANDIDATE_SILENCE,
    CANDIDATE_SILENCES,
    CLEAN_WORTH,
    COMPARED_LANES,
    DEPTH_WORTH,
    FEW_SILENT,
    GRADIENTS_WORTH,
    LATE_COST,
    SOON,
    WIDTH_WORTH,
)
from llmprism.methods.prism.segment.balance import Balance
from llmprism.methods.prism.segment.lanes import Lane, extent_of
from llmprism.methods.prism.segment.levels import Level
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
    """

    low: Floats
    high: Floats
    period_ns: float

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
    """Silences of all lanes that may hold a border.

    Attributes
    ----------
    low, high : begin and end of the silences of each lane [ns].
    gradients : whether the lane is a heavy one that nobody answers.
    """

    low: list[Floats]
    high: list[Floats]
    gradients: Bools

    def within(self, low: float, high: float) -> tuple[Floats, Floats, Bools]:
        """Silences between two moments, and whether their lanes are those of gradients."""
        found = []
        for a, b, heavy in zip(self.low, self.high, self.gradients, strict=True):
            part = slice(np.searchsorted(b, low, "right"), np.searchsorted(a, high, "left"))
            found.append((a[part], b[part], np.full(a[part].size, heavy)))
        begins, ends, heavy = (np.concatenate(each) for each in zip(*found, strict=True))
        return np.maximum(begins, low), np.minimum(ends, high), heavy


@dataclass(frozen=True)
class _Offers:
    """Windows that may be one border: begin, end and middle [ns], and log likelihood of each."""

    low: Floats
    high: Floats
    middle: Floats
    likely: Floats


def find_borders(lanes: list[Lane], election: Election, balances: dict[int, Balance]) -> Borders:
    """The border windows of the ``lanes``."""
    lead, level = lanes[election.lead], election.levels[election.lead]
    begin, end = extent_of(lanes)
    cuts = _with_ends(lead, level, (begin, end))
    low, high = lead.silence(cuts, (begin, end))
    silences = _silences(lanes, election, balances)
    if election.lead not in balances:
        high = np.minimum(high, low + SOON * np.maximum(level.period_ns, high - low))
    ends_steps = bool(silences.gradients[election.lead])
    offers = [
        _offers(silences.within(*silence), silence[0], ends_steps, balances, level.period_ns)
        for silence in zip(low.tolist(), high.tolist(), strict=True)
    ]
    outside = int(0 in cuts), int(lead.start.size in cuts)
    chosen = _together(lanes, offers, outside)
    left = np.array([offer.low[i] for offer, i in chosen])
    right = np.array([offer.high[i] for offer, i in chosen])
    middle = (left + right) / 2
    period = float(np.median(np.diff(middle))) if middle.size > 1 else (end - begin) / 2
    return Borders(left, right, period)


def _with_ends(lead: Lane, level: Level, extent: tuple[float, float]) -> Ints:
    """Cuts of the lead lane, with those outside of all its records where others send."""
    ends = np.array([0, lead.start.size])
    low, high = lead.silence(ends, extent)
    least = max(CANDIDATE_SILENCE * level.silence_ns, lead.floor)
    return np.union1d(level.cuts, ends[high - low > least])


def _silences(lanes: list[Lane], election: Election, balances: dict[int, Balance]) -> _Silences:
    low, high = [], []
    for number, lane in enumerate(lanes):
        level = election.levels.get(number)
        at = lane.silent if level is None else level.cuts
        begins, ends = lane.silence(np.union1d(at, (0, lane.start.size)), (-np.inf, np.inf))
        low.append(begins)
        high.append(ends)
    sent = np.array([lane.bytes for lane in lanes])
    unanswered = np.array([number not in balances for number in range(len(lanes))])
    gradients = unanswered & (sent >= 0.5 * sent.max())
    return _Silences(low, high, gradients & (gradients.sum() > 1))


def _offers(
    silences: tuple[Floats, Floats, Bools],
    low: float,
    ends_steps: bool,
    balances: dict[int, Balance],
    period: float,
) -> _Offers:
    """The windows within a silence of the lead lane, and how much like a border each is.

    ``low`` is its begin [ns]; ``ends_steps``: whether the lead lane is one of gradients.
    """
    begins, ends, heavy = silences
    edges = np.unique(np.concatenate((begins, ends)))
    middle = (edges[1:] + edges[:-1]) / 2
    depth = np.searchsorted(np.sort(begins), middle, "right")
    depth = depth - np.searchsorted(np.sort(ends), middle)
    after_gradients = np.isin(edges[:-1], begins[heavy & (begins > low)])
    after_gradients[:1] |= ends_steps
    after_gradients &= depth >= FEW_SILENT * depth.max()
    likely = DEPTH_WORTH * (depth / depth.max() - 1) + GRADIENTS_WORTH * after_gradients
    best = np.sort(np.argsort(-likely, kind="stable")[:CANDIDATE_SILENCES])
    last = np.array([_while_as_deep(depth, int(i)) for i in best])
    width = edges[last + 1] - edges[best]
    likely = likely[best] + _clean(middle[best], balances)
    likely -= LATE_COST * (edges[best] - low) / max(period, edges[-1] - low)
    likely += WIDTH_WORTH * np.log(width / width.max())
    return _Offers(edges[best], edges[last + 1], middle[best], likely)


def _while_as_deep(depth: Ints, first: int) -> int:
    less = np.flatnonzero(depth[first:] < depth[first])
    return int(first + less[0] - 1) if less.size else depth.size - 1


def _together(
    lanes: list[Lane], offers: list[_Offers], outside: tuple[int, int]
) -> list[tuple[_Offers, int]]:
    """The window of each border: by itself, and by the bytes of all lanes between two of them.

    A first and a last border that are ``outside`` of all records of the lead lane are none if the
    recording begins or ends with a step.
    """
    if not offers:
        return []
    heaviest = sorted(lanes, key=lambda lane: -lane.bytes)[:COMPARED_LANES]
    sent = [np.array([lane.before(offer.middle) for lane in heaviest]) for offer in offers]
    likeliest = [int(np.argmax(offer.likely)) for offer in offers]
    borders = np.array([each[:, i] for each, i in zip(sent, likeliest, strict=True)])
    steps = np.diff(borders, axis=0).T
    usual = np.median(steps, axis=1) if steps.size else np.zeros(len(heaviest))
    told = usual > 0
    if not told.any():
        return list(zip(offers, likeliest, strict=True))
    total = np.array([lane.bytes for lane in heaviest])[told] / usual[told]
    sent = [each[told] / usual[told, None] for each in sent]
    exact = exactness(steps[told] / usual[told, None])
    usual_likely = float(np.median([offer.likely.max() for offer in offers]))
    likely = [offer.likely - usual_likely for offer in offers]
    for i, is_outside in zip((0, -1), outside, strict=True):
        if is_outside:  # one more border is worth nothing by itself
            likely[i] = np.minimum(likely[i], 0.0)
    ways = [
        slice(a, len(offers) - b)
        for a in range(outside[0] + 1)
        for b in range(outside[1] + 1)
        if len(offers) > a + b
    ]
    paths = [best_path(likely[way], sent[way], total, exact) for way in ways]
    best = int(np.argmax([value for value, _ in paths]))
    return list(zip(offers[ways[best]], paths[best][1], strict=True))


def _clean(moments: Floats, balances: dict[int, Balance]) -> Floats:
    """How likely a border is by what is under way at each of the moments."""
    if not balances:
        return np.zeros(moments.size)
    clean = np.mean([each.clean(moments, moments) for each in balances.values()], axis=0)
    worth: Floats = CLEAN_WORTH * (clean - 1)
    return worth
