"""Granularity of the exporter's clock, inferred from its records."""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Ints

_SAMPLE = 20_000  # times used; more would not change the result
_FEWEST = 8  # distinct times; fewer may agree by chance
_MANY = 128  # times that do not agree by chance, even if few are distinct
_AGREEING = 0.99  # of the times; a few may come from another exporter
_TOGETHER = 16  # differences, that have a common divisor by chance once in 2^16 cases
_COARSEST_NS = 10**9


def clock_tick_ns(*times: Ints) -> int:
    """Return the largest number [ns], up to 1 s, that divides the differences of times.

    1 if there are too few times. Many records with few times show a coarse clock. Of begins and
    ends, those of one record were read from one clock, also where exporters have their own. Each
    clock shows several times: those that are equal show it once.

    >>> clock_tick_ns(np.arange(100) ** 2 * 3_000_000 + 7)
    3000000
    """
    columns = [_sampled(column) for column in times]
    sample = np.concatenate(columns)
    if sample.size < _MANY and np.unique(sample).size < _FEWEST:
        return 1
    apart = [np.diff(column) for column in columns]
    both = len(columns) == 2 and columns[0].size == columns[1].size
    if both:
        apart.append(columns[1] - columns[0])
    for tick in sorted({_divisor(one) for one in apart} - {1}, reverse=True):
        alike = np.unique(sample % tick, return_counts=True)[1].max() / sample.size
        counts = np.unique(np.unique(sample) % tick, return_counts=True)[1]
        if max(alike, both * counts[counts >= _FEWEST].sum() / counts.sum()) >= _AGREEING:
            return tick
    return 1


def _divisor(apart: Ints) -> int:
    """The usual common divisor of some differences that follow each other; 1 if there is none.

    A few distinct ones have a divisor by chance, unless it is a power of ten.
    """
    common = np.gcd.reduceat(apart, np.arange(0, apart.size, _TOGETHER)) if apart.size else apart
    found, often = np.unique(common[common > 0], return_counts=True)
    usual = int(found[np.argmax(often)]) if found.size else _COARSEST_NS
    if usual == 1:
        return 1
    if usual > _COARSEST_NS or np.unique(apart).size < _FEWEST:
        return int(max(10**power for power in range(10) if usual % 10**power == 0))
    return usual


def _sampled(column: Ints) -> Ints:
    return column.ravel()[:: max(1, column.size // _SAMPLE)]
