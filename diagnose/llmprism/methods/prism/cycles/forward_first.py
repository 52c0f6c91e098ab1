"""Forward passes come before backward passes: which of two silences ends a step of GPipe.

In such a step all activations have left before the first gradient comes back. Two silences then cut
the traffic into parts of equal bytes: that between two steps, and that in which the last stage
turns from forward to backward passes, often the longer one. Where records were lost, the balance of
both directions does not show which is which. The time of the passes does: a backward pass computes
twice as much as a forward pass. So parts that begin with the slower direction begin within steps.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.parameters import MOSTLY
from llmprism.numerics.arrays import Bools, Codes, Ints

SLOWER = 1.4  # times as long for a byte: between passes of equal length and one twice the other
LOOKED_AT = 8  # couples


def begin_with_backward(
    couple: Codes, forth: Bools, size: Ints, start_ns: Ints, end_ns: Ints, part: Codes
) -> bool:
    """Whether one direction has ended in most parts before the other, faster one begins."""
    own = np.flatnonzero(couple < LOOKED_AT)
    cell = 2 * (part[own].astype(np.int64) * LOOKED_AT + couple[own]) + forth[own]
    cells = 2 * LOOKED_AT * (int(part.max(initial=-1)) + 1)
    earliest, latest = np.full(cells, np.inf), np.full(cells, -np.inf)
    np.minimum.at(earliest, cell, start_ns[own].astype(np.float64))
    np.maximum.at(latest, cell, end_ns[own].astype(np.float64))
    moved = np.bincount(cell, size[own], cells)
    both = (moved[::2] > 0) & (moved[1::2] > 0)
    begin, end, moved = (each.reshape(-1, 2)[both].T for each in (earliest, latest, moved))
    pace = (end - begin) / moved
    is_first = begin[0] <= begin[1]  # whether the direction of the first row comes first
    turned = np.where(is_first, end[0] <= begin[1], end[1] <= begin[0])
    faster, slower = np.where(is_first, pace[::-1], pace)
    turned &= slower > SLOWER * faster
    return bool(turned.size and turned.mean() >= MOSTLY)


def first_forward(couple: Codes, forth: Bools, part: Codes) -> Ints:
    """The first record of the second direction in each part, except the very first record.

    The direction that comes first is that of most parts of a couple.
    """
    cell = part * (int(couple.max(initial=-1)) + 1) + couple
    _, opens = np.unique(cell, return_index=True)
    parts = np.bincount(couple[opens])
    leads = 2 * np.bincount(couple[opens], forth[opens]) > parts
    second = np.flatnonzero(forth != leads[couple])
    cuts = second[np.unique(part[second], return_index=True)[1]]
    return cuts[cuts > 0]
