"""Whether all that couples of endpoints have sent is answered, as far as it ever will be.

An activation is answered by a gradient, so at the end of a step as much has come back as was sent.
The activations of an evaluation are never answered, and lost records seem not to be, or to answer
what nobody sent. So what is under way between two endpoints is what they have sent, less what came
back, above the least that this is for a while before, or after.

Where records were lost, the time of the passes shows more. In a step of GPipe all activations have
left before the first gradient comes back. So two silences cut the traffic into parts of equal
bytes: that between two steps, and that in which the last stage turns from forward to backward
passes, often the longer one. A backward pass computes twice as much as a forward pass, so parts
that begin with the slower direction begin within steps.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.parameters import MOSTLY
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

BALANCED = 0.5  # of a message: less than one is on the way
EVEN = 0.01  # difference of volumes of many messages that counts as none
SLOWER = 1.4  # times as long for a byte: between passes of equal length and one twice the other
LOOKED_AT = 8  # couples


def balanced_at(couple: Codes, forth: Bools, size: Ints, at: Ints, most: int) -> Bools | None:
    """Whether nothing is under way between any couple before each record ``at``.

    ``couple``, ``forth`` and ``size`` are of the records. ``most``: records of a couple before and
    after, in which the least counts. None if some couple is one way.
    """
    volume = both_ways(couple, forth, size)
    if not volume.all():
        return None
    order = np.argsort(couple, kind="stable")
    change, typical = np.zeros(couple.size + 1), float(np.median(size))
    for way, own in zip(volume, np.split(order, np.cumsum(np.bincount(couple))[:-1]), strict=True):
        even = abs(way[0] - way[1]) <= EVEN * way.max() + typical
        sends = forth[own] == (forth[own[0]] if even else way[1] > way[0])
        ahead = np.cumsum(np.where(sends, size[own], -size[own]), dtype=np.float64)
        above = _above_least(np.append(0.0, ahead), most)
        change[own + 1] = np.diff(above)
        change[0] += above[0]
    quiet: Bools = np.cumsum(change)[at] < BALANCED * typical
    return quiet


def _above_least(ahead: Floats, most: int) -> Floats:
    """How far values are above the least of ``most`` ones before them, or after, which is less."""
    from scipy.ndimage import minimum_filter1d

    width = min(most, ahead.size) + 1
    before, after = (
        minimum_filter1d(ahead, width, mode="nearest", origin=place)
        for place in ((width - 1) // 2, -(width // 2))
    )
    return np.asarray(ahead - np.maximum(before, after))


def both_ways(couple: Codes, forth: Bools, size: Ints) -> Floats:
    """Bytes of each couple in both directions, shape (couples, 2)."""
    couples = int(couple.max(initial=-1)) + 1
    volume = np.bincount(couple * 2 + forth, size, 2 * couples)
    return volume.reshape(-1, 2).astype(np.float64)


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
