"""Whether connections have moved equally much.

An activation is answered by a gradient, so at the end of a step both directions of a couple are
even. All connections of a collective have moved the same bytes when it ends. While ranks wait for
one that is late, the connections behind it have moved more than those before it: such a silence is
inside a collective, and ends no step.
"""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import BOOLS, CODES, INTS, compile_early

BALANCED = 0.5  # of a message: less than one is on the way
EVEN = 0.01  # difference of two directions' volumes that counts as none
FEWEST = 3  # connections
SMALL = 0.05  # quantile of the sizes of records: a small one
SEED = 0  # of the weights of connections, which any other ones would do for


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


def ahead_before(couple: Codes, forth: Bools, size: Ints) -> Floats:
    """How far connections are ahead of others before each record [bytes], from 0.

    Bytes of connections are added up with weights whose sum is 0, so the sum is the same wherever
    all have moved as many more.
    """
    line = lines_of(couple, forth)
    first = np.full(int(line.max()) + 1, line.size)
    first[line[::-1]] = np.arange(line.size)[::-1]
    weight = np.empty(first.size)
    weight[np.argsort(first)] = np.random.default_rng(SEED).normal(size=first.size)
    weight -= weight[first < line.size].mean()
    return np.append(0.0, np.cumsum(weight[line] * size)[:-1])


def lines_of(couple: Codes, forth: Bools) -> Ints:
    """Number of the connection of each record: both directions of a couple, one after the other."""
    return 2 * couple.astype(np.int64) + forth


def levels_at(couple: Codes, forth: Bools, size: Ints, at: Ints) -> list[Bools]:
    """Before which records ``at`` connections have moved equally much, if that can be told.

    None is ahead where all are as far as before the first record, if the recording begins between
    two collectives, or else as far as they are most often: both are returned. Nothing is, if all
    silences are alike. Two connections would be as far as before as soon as both have lost a
    record.
    """
    if np.count_nonzero(np.bincount(lines_of(couple, forth))) < FEWEST:
        return []
    near = max(EVEN * float(np.quantile(size, SMALL)), 1.0)
    ahead = np.rint(ahead_before(couple, forth, size)[at] / near)
    value, often = np.unique(ahead, return_counts=True)
    usual = value[often == often.max()][:1]
    levels: list[Bools] = [ahead == one for one in (0.0, *usual)]
    return [level for level in levels if 0 < np.count_nonzero(level) < at.size]


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
