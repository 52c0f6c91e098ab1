"""Paces against those of the same connection in other steps, where it is known which ones are slow.

A connection alone shows its healthy pace by its better steps. Where a part is slow in most steps of
a job, and the others differ, that is the slow pace, and nothing seems to be slow. If the lengths of
steps show when jobs were slow, all other steps show what is healthy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.methods.prism.faults.measures.bundles import LEAST_SHARE
from llmprism.methods.prism.faults.measures.rates import LEAST, Rates
from llmprism.methods.prism.faults.measures.series import DEVIATIONS, FEWEST, Judged
from llmprism.methods.prism.faults.measures.wire_time import SURELY
from llmprism.numerics.arrays import Bools, Floats
from llmprism.numerics.missing import nanmedian, row_deviations

LESS = 0.05  # of a healthy pace: transfers of healthy jobs differ by as much


def rejudged(rates: Rates, inside: Bools, healthy: Bools) -> Rates:
    """``rates``, relative to what each connection shows in the steps that are ``healthy``.

    Connections that show too few of them have no pace. Nor have those that are slower ``inside``
    some steps, but not slow: they may have room on a slow link, so they do not clear it.
    """
    usual = _usual(rates.pace.ratio, healthy)
    ratio = rates.pace.ratio / usual[:, None]
    noise = np.fmax(row_deviations(ratio[:, healthy]), rates.coarse / usual)
    bar = np.fmax(DEVIATIONS * noise, LEAST)[:, None]
    out = np.nan_to_num(ratio, nan=0.0) - 1 > np.nan_to_num(bar, nan=np.inf)
    slower = _surely_slower(ratio[:, inside], noise) & ~(out[:, inside].mean(axis=1) >= LEAST_SHARE)
    ratio = np.where(slower[:, None], np.nan, ratio)
    busy = rates.busy / _usual(rates.busy, healthy)[:, None]
    return replace(rates, pace=Judged(ratio, noise, out, out), busy=busy)


def _surely_slower(inside: Floats, noise: Floats) -> Bools:
    """Whether the middle of some steps is slower than healthy ones, by more than is chance."""
    count = np.maximum(np.isfinite(inside).sum(axis=1), 1)
    bar = np.fmax(SURELY * noise / np.sqrt(count), LESS)
    found: Bools = nanmedian(inside, axis=1) - 1 > bar
    return found


def _usual(values: Floats, healthy: Bools) -> Floats:
    """Median of each series in healthy steps; NaN where too few are known."""
    beside = values[:, healthy]
    usual = nanmedian(beside, axis=1)
    known = (np.isfinite(beside).sum(axis=1) >= FEWEST) & (usual > 0)
    found: Floats = np.where(known, usual, np.nan)
    return found
