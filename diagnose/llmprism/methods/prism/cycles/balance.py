"""Whether both directions of each couple of endpoints have moved equally much.

An activation is answered by a gradient, so at the end of a step the two are even.
"""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import BOOLS, CODES, INTS, compile_early

BALANCED = 0.5  # of a message: less than one is on the way
EVEN = 0.01  # difference of two directions' volumes that counts as none


def balanced_at(couple: Codes, forth: Bools, size: Ints, at: Ints) -> Bools | None:
    """Whether both directions of every couple have moved equally much before each record ``at``.

    ``couple``, ``forth`` and ``size`` are of the records. None if some couple is not two-way with
    equal volumes.
    """
    volume = both_ways(couple, forth, size)
    if (volume.min(axis=1) < (1 - EVEN) * volume.max(axis=1)).any():
        return None
    typical = float(np.median(size))
    gain = (volume.mean(axis=1)[:, None] / volume).astype(np.float64)
    off = _imbalance(couple, forth, size, gain, at)
    even: Bools = off < BALANCED * typical
    return even


def both_ways(couple: Codes, forth: Bools, size: Ints) -> Floats:
    """Bytes of each couple in both directions, shape (couples, 2)."""
    couples = int(couple.max(initial=-1)) + 1
    volume = np.bincount(couple * 2 + forth, size, 2 * couples)
    return volume.reshape(-1, 2).astype(np.float64)


@compiled
def _imbalance(couple: Codes, forth: Bools, size: Ints, gain: Floats, at: Ints) -> Floats:
    """Bytes that one direction is ahead of the other, summed over couples, before each gap."""
    ahead = np.zeros(gain.shape[0])
    total = 0.0
    out = np.zeros(at.size)
    row = 0
    for i in range(at.size):
        while row < at[i]:
            c = couple[row]
            total -= abs(ahead[c])
            if forth[row]:
                ahead[c] += size[row] * gain[c, 1]
            else:
                ahead[c] -= size[row] * gain[c, 0]
            total += abs(ahead[c])
            row += 1
        out[i] = total
    return out


compile_early(_imbalance, lambda: (CODES, BOOLS, INTS, np.zeros((0, 2)), INTS))
