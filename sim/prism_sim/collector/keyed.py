"""Random numbers for records, keyed by the identity of the record.

With a sequential generator, one more record would change the numbers of all later ones. Here a
number is a hash of the purpose and of the record's identity. It depends on nothing else, and a
million of them take one pass over an array.

Reference: Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA'14, for
the finalizer (SplitMix64).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prism_sim.draws import Draws

Words = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def hashed(*words: Words | NDArray[np.int64]) -> Words:
    """Mix arrays of equal length to 64 bits a row."""
    state = np.full(len(words[0]), _GOLDEN)
    for word in words:
        state ^= word.astype(np.uint64)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
        state += _GOLDEN
    return state


def uniform(draws: Draws, purpose: str, ids: Words) -> NDArray[np.float64]:
    """Uniform numbers in (0, 1), one an identity, shape (rows,).

    >>> ids = np.array([3, 4, 3], np.uint64)
    >>> a, b, c = uniform(Draws(1), "loss", ids)
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    key = np.full(len(ids), np.uint64(draws.number(purpose)))
    top = hashed(key, ids, key) >> np.uint64(11)
    return (top.astype(np.float64) + 0.5) * 2.0**-53
