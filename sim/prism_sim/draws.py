"""Random numbers by purpose, not by sequence.

Every draw is keyed by its purpose: the seed, a name, and the coordinates of the random quantity
(job, rank, step, ...). Philox is a counter-based generator, so each key has its own stream.
Adding a job or a fault changes no other draw, and two runs of a what-if comparison have the same
jitter at the same place.

Reference: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC'11.
"""

from __future__ import annotations

import hashlib

import numpy as np

Coordinate = int | str


class Draws:
    """All random numbers of one run.

    >>> a, b = Draws(1), Draws(1)
    >>> a.stream("jitter", "job", 3).normal() == b.stream("jitter", "job", 3).normal()
    True
    >>> a.stream("jitter", "job", 3).normal() == a.stream("jitter", "job", 4).normal()
    False
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def stream(self, purpose: str, *key: Coordinate) -> np.random.Generator:
        """The generator for one purpose and place, always from its beginning."""
        return np.random.Generator(np.random.Philox(key=self.number(purpose, *key, bits=128)))

    def number(self, purpose: str, *key: Coordinate, bits: int = 64) -> int:
        """A uniform integer of ``bits`` bits for one purpose and place."""
        name = repr((self._seed, purpose, *key)).encode()
        return int.from_bytes(hashlib.blake2b(name, digest_size=bits // 8).digest(), "little")
