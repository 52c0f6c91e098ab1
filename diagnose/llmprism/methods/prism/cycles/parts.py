"""How equal the parts of a division are: the loops of :mod:`~llmprism.methods.prism.cycles.cycles`.

Every threshold on gaps makes parts of its own, so these functions run some ten thousand times
for one job. They are compiled.
"""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from prism_common.compiled import compiled
from prism_common.early import BOOLS, CODES, FLOATS, INTS, compile_early

TOLERANCES = (0.01, 0.03, 0.1, 0.25)
MOST_PARTS, MOST_BYTES = 0.75, 0.9  # shares within a tolerance from which parts are regular
_EXACT = 0.03  # of a step: differences of parts that count as none
FEW = 5  # parts, below which the first and the last are judged as well


@compiled
def regularity(volumes: Floats) -> tuple[float, float, float]:
    """Tolerance, share of parts and share of bytes that are regular.

    ``volumes`` are bytes of each part, more than 0. The first and the last part may be cut off by
    the window; from five parts on they are left out of the judgement if they are smaller than
    the median.
    """
    median = np.median(volumes)
    first, last = 0, volumes.size
    if volumes.size >= FEW:
        first += volumes[0] < median * (1 - TOLERANCES[0])
        last -= volumes[-1] < median * (1 - TOLERANCES[0])
    total = max(volumes[first:last].sum(), 1.0)
    parts = share = 0.0
    for tolerance in TOLERANCES:
        near, moved = 0, 0.0
        for i in range(first, last):
            if abs(volumes[i] - median) <= tolerance * median:
                near += 1
                moved += volumes[i]
        parts, share = near / (last - first), moved / total
        if parts >= MOST_PARTS and share >= MOST_BYTES:
            return tolerance, parts, share
    return np.inf, parts, share


compile_early(regularity, lambda: (FLOATS,))


@compiled
def with_extras(volumes: Floats, records: Floats) -> tuple[float, float, float]:
    """As :func:`regularity`, where some parts hold a step and an evaluation.

    An evaluation of sharded parameters gathers them as a step does. Most parts are equal; those
    that are not hold more, all as much, in more ``records``, and not several steps. A larger
    record is another collective, such as the bucket of the embeddings.
    """
    usual = np.median(records)
    median = np.median(volumes)
    single = extra = 0
    least, most, moved = np.inf, 0.0, 0.0
    for part in range(volumes.size):
        volume, ratio = volumes[part], volumes[part] / median
        if abs(ratio - 1.0) <= _EXACT:
            single += 1
            moved += volume
        elif ratio > 1.0 and records[part] > usual and abs(ratio - np.rint(ratio)) > _EXACT * ratio:
            extra += 1
            least, most = min(least, ratio), max(most, ratio)
    whole = single + extra == volumes.size and extra > 0
    if whole and single >= MOST_PARTS * volumes.size and most <= (1 + _EXACT) * least:
        return _EXACT, single / volumes.size, moved / volumes.sum()
    return np.inf, 0.0, 0.0


compile_early(with_extras, lambda: (FLOATS, FLOATS))


@compiled
def holds_several(volumes: Floats, tolerance: float, mostly: float) -> bool:
    """Whether some parts are several steps, ``mostly`` single ones, and all of them one of both.

    ``tolerance`` is a share of a step, whose volume is that of the median part.
    """
    median = np.median(volumes)
    single = several = 0
    for volume in volumes:
        steps = np.rint(volume / median)
        away = abs(volume / median - steps)
        if steps == 1 and away <= tolerance:
            single += 1
        elif steps > 1 and away <= tolerance * steps:
            several += 1
    return several > 0 and single >= mostly * volumes.size and single + several == volumes.size


compile_early(holds_several, lambda: (FLOATS, 0.0, 0.0))


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


compile_early(whole_parts, lambda: (FLOATS, 0.0, 0.0))


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


compile_early(share_answered, lambda: (CODES, BOOLS, INTS))
