"""Whether all that couples of endpoints have sent is answered, as far as it ever will be.

An activation is answered by a gradient, so at the end of a step as much has come back as was sent.
The activations of an evaluation are never answered, and lost records seem not to be, or to answer
what nobody sent. So what is under way between two endpoints is what they have sent, less what came
back, above the least that this is for a while before, or after.
"""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

BALANCED = 0.5  # of a message: less than one is on the way
EVEN = 0.01  # difference of volumes of many messages that counts as none


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
