"""How equal the parts of a division are: the loops of :mod:`~llmprism.methods.prism.cycles.cycles`.

Every threshold on gaps makes parts of its own, so these functions run some thousand times for
one job. Those that go from part to part are compiled.
"""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from prism_common.compiled import compiled

TOLERANCES = (0.01, 0.03, 0.1, 0.25)
MOST_PARTS, MOST_BYTES = 0.75, 0.9  # shares within a tolerance from which parts are regular
_EXACT = 0.03  # of a step: differences of parts that count as none
FEW = 5  # parts, below which the first and the last are judged as well


def _median(values: Floats) -> float:
    """The median, in a tenth of the time that NumPy takes for a few values."""
    half = values.size // 2
    both = np.partition(values, (half - 1 + values.size % 2, half))
    return float(both[half - 1 + values.size % 2] + both[half]) / 2


def regularity(volumes: Floats) -> tuple[float, float, float]:
    """Tolerance, share of parts and share of bytes that are regular.

    ``volumes`` are bytes of each part, more than 0. The first and the last part may be cut off by
    the window; from five parts on they are left out of the judgement if they are smaller than
    the median.
    """
    median, first, last = _median(volumes), 0, volumes.size
    if volumes.size >= FEW:
        first += int(volumes[0] < median * (1 - TOLERANCES[0]))
        last -= int(volumes[-1] < median * (1 - TOLERANCES[0]))
    own = volumes[first:last]
    total, away = max(float(own.sum()), 1.0), np.abs(own - median)
    found: tuple[float, float, float] | None = None
    for tolerance in reversed(TOLERANCES):
        near = away <= tolerance * median
        parts, share = np.count_nonzero(near) / own.size, float(own @ near) / total
        if parts < MOST_PARTS or share < MOST_BYTES:
            return found or (np.inf, parts, share)
        found = tolerance, parts, share
    assert found is not None  # there are tolerances
    return found


def with_extras(volumes: Floats, records: Floats) -> tuple[float, float, float]:
    """As :func:`regularity`, where some parts hold a step and an evaluation.

    An evaluation of sharded parameters gathers them as a step does. Most parts are equal; those
    that are not hold more, all as much, in more ``records``, and not several steps. A larger
    record is another collective, such as the bucket of the embeddings.
    """
    ratio = volumes / _median(volumes)
    single = np.abs(ratio - 1.0) <= _EXACT
    number, other = np.count_nonzero(single), ratio[~single]
    if other.size == 0 or number < MOST_PARTS * volumes.size or other.min() <= 1.0:
        return np.inf, 0.0, 0.0
    several = np.abs(other - np.rint(other)) <= _EXACT * other
    more = records[~single] > _median(records)
    if several.any() or not more.all() or other.max() > (1 + _EXACT) * other.min():
        return np.inf, 0.0, 0.0
    return _EXACT, number / volumes.size, float(volumes[single].sum() / volumes.sum())


def holds_several(volumes: Floats, tolerance: float, mostly: float) -> bool:
    """Whether some parts are several steps, ``mostly`` single ones, and all of them one of both.

    ``tolerance`` is a share of a step, whose volume is that of the median part.
    """
    ratio = volumes / _median(volumes)
    steps = np.rint(ratio)
    fits = (steps >= 1) & (np.abs(ratio - steps) <= tolerance * steps)
    single = np.count_nonzero(steps == 1)
    return bool(fits.all() and mostly * volumes.size <= single < volumes.size)


@compiled
def whole_parts(volumes: Floats, usual: float, tolerance: float) -> Bools:
    """Whether to cut after each part; small ones are joined while the sum fits the ``usual``."""
    cut = np.ones(volumes.size, np.bool_)
    low, high = (1 - tolerance) * usual, (1 + tolerance) * usual
    begin = 0
    while begin < volumes.size:
        total, end = volumes[begin], begin
        while total < low and end + 1 < volumes.size and total + volumes[end + 1] <= high:
            end += 1
            total += volumes[end]
        if end > begin and total >= low:
            cut[begin:end] = False
            begin = end + 1
        else:
            begin += 1
    return cut


@compiled
def share_answered(couple: Codes, forth: Bools, cuts: Ints) -> float:
    """Share of parts in which most of the couples that move anything move it both ways.

    ``couple`` and ``forth`` are of the records; ``cuts`` is the first record of each part but one.
    """
    ways = np.zeros(couple.max() + 1, np.int64)
    answered = begin = 0
    for part in range(cuts.size + 1):
        end = cuts[part] if part < cuts.size else couple.size
        moved = both = 0
        for row in range(begin, end):
            before = ways[couple[row]]
            after = before | (1 if forth[row] else 2)
            moved += before == 0
            both += after == 3 and before != 3
            ways[couple[row]] = after
        for row in range(begin, end):
            ways[couple[row]] = 0
        answered += 2 * both > moved
        begin = end
    return answered / (cuts.size + 1)
