"""Granularity of the exporter's clock, inferred from its records."""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Ints

_SAMPLE = 100_000  # times used; more would not change the result
_FEWEST = 8  # distinct times; fewer may agree by chance
_MANY = 128  # times that do not agree by chance, even if few are distinct
_AGREEING = 0.99  # of the times; a few may come from another exporter


def clock_tick_ns(*times: Ints) -> int:
    """Return the largest power of ten [ns], up to 1 s, that divides the differences of times.

    1 if there are too few times. Many records with few times show a coarse clock.

    >>> clock_tick_ns(np.arange(100) * 3_000_000 + 7)
    1000000
    """
    sample = np.concatenate([_sampled(column) for column in times])
    if sample.size < _MANY and np.unique(sample).size < _FEWEST:
        return 1
    tick = 1
    for power in range(1, 10):
        _, counts = np.unique(sample % 10**power, return_counts=True)
        if counts.max() < _AGREEING * sample.size:
            break
        tick = 10**power
    return tick


def _sampled(column: Ints) -> Ints:
    return column[:: max(1, column.size // _SAMPLE)]
