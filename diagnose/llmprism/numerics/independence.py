"""Whether anything circulates in records, or each one is independent of the others.

Transfers of a collective begin together, and a rank has few partners. Records show neither if their
starts and their ends are independent of each other:

- the *Allan factor* of a sequence of events is half the mean squared difference of the numbers in
  successive intervals, over the mean number. It is 1 if events are independent (a Poisson
  process), less if they are regular, and about the size of a bunch if they come in bunches. A rate
  that drifts hardly changes it, as successive intervals have nearly the same rate (D. W. Allan,
  1966). Intervals of several lengths are used, as bunches may last;
- the *effective number* of partners is the inverse of the probability that two records have the
  same one (E. H. Simpson, 1949): of two records from one source, and of any two records. These
  numbers are equal if destinations are independent of sources.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmprism.numerics.arrays import Codes, Ints

IN_INTERVAL = (8, 32, 128, 512)  # events in an interval, on average
INTERVALS = 1024  # of the shortest length at least, to tell
BUNCHED, DEVIATIONS = 1.1, 4.0  # Allan factor, and standard deviations above it
OF_ALL = 0.5  # of all receivers: so many partners of a source are no choice
COINCIDENCES = 16  # of partners, at least, to tell


def nothing_circulates(start_ns: Ints, src: Codes, dst: Codes, tick_ns: int) -> bool:
    """Whether records, on a clock of ``tick_ns`` [ns], are independent of each other.

    Arrays of shape (records,). False if there are too few records, or too few times, to tell.
    """
    return not _come_in_bunches(start_ns, tick_ns) and _have_any_partner(src, dst)


def _come_in_bunches(times_ns: Ints, tick_ns: int) -> bool:
    """Whether events may come in bunches; True if there are too few intervals to tell."""
    if times_ns.size == 0:
        return True
    first, last = int(times_ns.min()), int(times_ns.max())
    for events in IN_INTERVAL:
        width = max(1, round((last - first) / tick_ns * events / times_ns.size)) * tick_ns
        count = (last - first) // width
        if count < INTERVALS:
            return events == IN_INTERVAL[0]
        numbers = np.bincount((times_ns - first) // width, minlength=count)[:count]
        if _allan_factor(numbers) > BUNCHED + DEVIATIONS * np.sqrt(3 / count):
            return True
    return False


def _allan_factor(numbers: Ints) -> float:
    changes = np.diff(numbers.astype(np.float64))
    return float((changes * changes).mean() / (2 * numbers.mean()))


def _have_any_partner(src: Codes, dst: Codes) -> bool:
    """Whether a source has about as many partners as there are receivers; False if too few tell."""
    pair = src.astype(np.int64) << 32 | dst
    pair.sort()
    runs = np.diff(np.flatnonzero(np.concatenate(([True], pair[1:] != pair[:-1], [True]))))
    same_source, same_both = _pairs(np.bincount(src)), _pairs(runs)
    same_receiver = _pairs(np.bincount(dst)) / max(_pairs(np.array([src.size])), 1.0)
    expected = same_source * same_receiver
    return expected >= COINCIDENCES and same_both * OF_ALL < expected


def _pairs(sizes: NDArray[np.signedinteger]) -> float:
    """Number of pairs of records in groups of these sizes."""
    size = sizes.astype(np.float64)
    return float((size * (size - 1)).sum() / 2)
