"""Collectives by halving: reductions between partners that exchange half as much each time.

In Rabenseifner's all-reduce among ``2^k`` ranks a rank exchanges half of the gradients with its
first partner, a quarter with the second, and so on, and gathers them in the opposite order. Its
couples with ``k`` partners have volumes of 1, 1/2, 1/4, ... No other traffic of a job has so exact
a sequence of three or more at every rank: activations and gradients of a model do not depend on
each other. Who begins, rests or sends more for a while says nothing against it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes import TrafficClass
from llmprism.methods.prism.connections import Connections
from llmprism.numerics.arrays import Bools, Floats, Ints

EXACT = 0.02  # by which volumes may differ from half of the one before: headers, lost records
LOST = 0.1  # by which those of a class may differ from the median: their records may be lost
FEWEST = 3  # partners of a rank that make a sequence


def halving(connections: Connections, classes: Sequence[TrafficClass]) -> set[int]:
    """Indices of the ``classes`` whose couples are all part of an all-reduce by halving."""
    two_way = [i for i, one in enumerate(classes) if one.two_way]
    if len(two_way) < FEWEST:
        return set()
    which = np.concatenate([classes[i].connections for i in two_way])
    ends = np.sort(np.column_stack((connections.src[which], connections.dst[which])), axis=1)
    couples, couple = np.unique(ends, axis=0, return_inverse=True)
    volume = np.bincount(couple.ravel(), connections.total_bytes[which]).astype(np.float64)
    borders = np.cumsum([classes[i].connections.size for i in two_way])[:-1]
    for own in np.split(couple.ravel(), borders):
        usual = np.median(volume[own])
        if (np.abs(volume[own] - usual) <= LOST * usual).all():
            volume[own] = usual
    inside = _in_sequences(couples, volume)[couple.ravel()]
    parts = np.split(inside, borders)
    return {i for i, part in zip(two_way, parts, strict=True) if part.all()}


def _in_sequences(couples: Ints, volume: Floats) -> Bools:
    """Which couples are in a sequence of volumes, each half of the one before, at both ends."""
    own: dict[int, list[float]] = {}
    for (one, other), moved in zip(couples.tolist(), volume.tolist(), strict=True):
        own.setdefault(one, []).append(moved)
        own.setdefault(other, []).append(moved)
    return np.array([
        all(_length(moved, own[end]) >= FEWEST for end in pair)
        for pair, moved in zip(couples.tolist(), volume.tolist(), strict=True)
    ], np.bool_)  # fmt: skip


def _length(moved: float, among: Sequence[float]) -> int:
    """Length of the sequence of halves and doubles of ``moved`` that is ``among`` these volumes."""
    length = 1
    for factor in (0.5, 2.0):
        wanted = moved * factor
        while any(abs(one - wanted) <= EXACT * wanted for one in among):
            length += 1
            wanted *= factor
    return length
