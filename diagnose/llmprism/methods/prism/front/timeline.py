"""Begin and end of every rank's steps.

The last data-parallel traffic that a rank receives ends its step. The next one begins after the
host's work, which the first stage of a pipeline shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.kinds import DP
from llmprism.methods.prism.front.layouts.layout import Layout
from llmprism.methods.prism.front.segment.borders import Borders
from llmprism.methods.prism.front.segment.cutting import CutLane
from llmprism.numerics.arrays import Codes, Floats


@dataclass(frozen=True)
class Timeline:
    """Steps of every rank; arrays of shape (endpoints, steps) [ns]; NaN where not shown."""

    start: Floats
    end: Floats
    dp_end: Floats


def find_timeline(
    cut: list[CutLane], endpoints: Codes, borders: Borders, layout: Layout
) -> Timeline:
    """The steps of ``endpoints``."""
    shape = endpoints.size, borders.steps
    row = {int(end): i for i, end in enumerate(endpoints)}
    first, last = np.full(shape, np.nan), np.full(shape, np.nan)
    dp_end, dp_sent = np.full(shape, np.nan), np.full(shape, np.nan)
    for c, kind in zip(cut, layout.kinds, strict=True):
        begins, ends = c.first(), c.last()
        for end in (c.lane.src, c.lane.dst):
            i = row[end]
            first[i] = np.fmin(first[i], begins)
            last[i] = np.fmax(last[i], ends)
        if kind == DP:
            i = row[c.lane.dst]
            dp_end[i] = np.fmax(dp_end[i], ends)
            i = row[c.lane.src]
            dp_sent[i] = np.fmax(dp_sent[i], ends)
    dp_end = np.where(np.isnan(dp_end), dp_sent, dp_end)
    end = np.where(np.isnan(dp_end), last, dp_end)
    return Timeline(_starts(first, end, borders, layout), end, dp_end)


def _starts(first: Floats, end: Floats, borders: Borders, layout: Layout) -> Floats:
    """Begins: the end of the step before, or later after a long silence."""
    before = np.concatenate((np.full((len(end), 1), np.nan), end[:, :-1]), axis=1)
    silence = first - before
    usual = np.nanmedian(silence, axis=1, keepdims=True)
    long = silence > 2 * usual + 0.4 * borders.period_ns
    start = np.where(long, first - usual, before)
    opening = np.where(np.isnan(usual), 0.0, usual)
    return np.where(np.isnan(start), first - opening, start)
