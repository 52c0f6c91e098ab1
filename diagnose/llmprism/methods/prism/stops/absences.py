"""Which rank is missing from a ring, by what its hops sent after their last whole collective.

A ring is a chain: a hop sends its first chunk when both of its ends are there, and each other chunk
when the hop before has sent one. So behind a missing rank the hops have sent 0, 1, 2, ... chunks.
Bytes between ranks of one server are not seen, so a hop between servers adds a chunk for each rank
of a server, and the first one tells how many ranks of its server are behind the missing one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from llmprism.methods.prism.parameters import EQUAL, FEWEST, QUARTER, SMALL
from llmprism.numerics.arrays import Floats

SLACK = 1e-5  # of the bytes of a step: a chunk of one of 80 layers, in a ring of 64 ranks, has more


@dataclass(frozen=True)
class Absence:
    """A rank that may be missing.

    Attributes
    ----------
    differs : share of the bytes that its absence does not explain.
    place : the hop that leaves its server.
    rank, ranks : its number in its server, and ranks of a server in the ring.
    chunk : what each rank of the ring adds to the bytes of a hop.
    """

    differs: float
    place: int
    rank: int
    ranks: int
    chunk: float

    def fits(self, whole: float, hops: int) -> bool:
        """Whether each hop sends ``whole`` in a collective that nobody is missing from.

        A ring of n ranks parts its data into n chunks. A hop sends n - 1 of them to scatter what
        was reduced or to gather it, and twice as many to do both.
        """
        rounds = whole / max(self.chunk, SLACK * SLACK) / (hops * self.ranks - 1)
        return min(abs(rounds - 1), abs(rounds / 2 - 1)) < EQUAL


def likely_absences(
    moved: Floats, slack: float, levels: Floats, counts: Sequence[int]
) -> list[Absence]:
    """The absences that explain what the hops ``moved`` nearly as well as the likeliest one.

    ``levels`` is what each hop has moved when a collective of a step ends, in order, known to
    ``slack``; ``counts`` are the possible numbers of ranks of a server.
    """
    least = float(moved.min()) + slack
    ended = np.concatenate(([0.0], levels[levels <= least]))[-1]
    found = missing_from(np.maximum(moved - ended, 0.0), counts)
    if not found or found[0].differs >= QUARTER:
        return []
    near = [one for one in found if one.differs <= found[0].differs + SMALL]
    whole = float(levels[levels > least].min(initial=1.0) - ended)
    return [one for one in near if one.fits(whole, moved.size)] or near


def missing_from(sent: Floats, counts: Sequence[int]) -> list[Absence]:
    """Absences that would make the hops of a ring send ``sent``, likeliest first.

    Of three hops or more, all may have sent more by as much: whole collectives before.

    >>> missing_from(np.array([3.0, 0.0, 0.0, 1.0, 2.0]), (1,))[0]
    Absence(differs=0.0, place=2, rank=0, ranks=1, chunk=1.0)
    """
    found, total = [], float(np.linalg.norm(sent - sent.min()))
    for count in counts:
        for rank, place in product(range(count), range(sent.size)):
            shape = (count - 1 - rank) / count + np.arange(float(sent.size))
            shape[-1] *= rank > 0
            expected = np.roll(shape, place)
            fit = _fitted(sent, expected)
            if sent.size >= FEWEST:
                rest, unit = _fitted(sent - sent.min(), expected - expected.min())
                fit = min(fit, (rest + SLACK * total, unit))
            found.append(Absence(fit[0] / total, place, rank, count, fit[1] / count))
    return sorted(found, key=lambda one: one.differs)


def _fitted(sent: Floats, expected: Floats) -> tuple[float, float]:
    """How far the nearest multiple of ``expected`` is from ``sent``, and that multiple."""
    unit = float(expected @ sent) / max(float(expected @ expected), SLACK)
    return float(np.linalg.norm(sent - unit * expected)), unit
