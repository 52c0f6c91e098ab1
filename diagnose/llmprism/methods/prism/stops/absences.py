"""What the hops of a ring send after a collective that one rank never joined.

A hop sends its first chunk as soon as both of its ends have joined, and each other chunk when the
hop before has sent one. Nothing reaches the missing rank, or leaves it; the hop after that sends
one chunk, the next one two, and so on. Where a server has several ranks of the ring, only the hops
between servers are seen. How many there are shows in the chunks that a whole collective has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from llmprism.methods.prism.parameters import EQUAL
from llmprism.numerics.arrays import Floats

Place = tuple[int, int | None, int]


@dataclass(frozen=True)
class Missing:
    """A rank that may be missing: its server, and the part of the server's ranks before it.

    ``rank`` and ``ranks`` are its number and the number of ranks of a server in the ring; None if
    the server has one rank in each ring, or its NIC is silent. ``differs`` is the share of the
    bytes that its absence does not explain; ``chunk`` is what each rank of the ring adds to them.
    """

    place: int
    rank: int | None
    ranks: int
    differs: float
    chunk: float = 0.0

    def fits(self, whole: float, hops: int) -> bool:
        """Whether each hop of a whole collective of the ring sends so many bytes.

        A ring of n ranks parts its data into n chunks. A hop sends n - 1 of them to scatter what
        was reduced or to gather it, and twice as many to do both.
        """
        rounds = whole / max(self.chunk, 1.0) / (hops * self.ranks - 1)
        return min(abs(rounds - 1), abs(rounds / 2 - 1)) < EQUAL


def missing_from(sent: Floats, ranks: Sequence[int]) -> list[Missing]:
    """All ranks whose absence would make hops send ``sent``, likeliest first.

    ``ranks`` are the possible numbers of ranks of a server in the ring.
    """
    places, expected = _absences(sent.size, tuple(ranks))
    differs = _differences(sent, expected).tolist()
    chunks = (_units(sent, expected) / np.array([count for _, _, count in places])).tolist()
    found = [Missing(*own, *both) for own, *both in zip(places, differs, chunks, strict=True)]
    return sorted(found, key=lambda one: one.differs)


def unexplained(sent: Floats, ranks: Sequence[int]) -> Floats:
    """Share of each row of ``sent`` (rows, hops) that no absence explains; shape (rows,)."""
    _, expected = _absences(sent.shape[1], tuple(ranks))
    return np.array([_differences(row, expected).min(initial=1.0) for row in sent])


def unequal(sent: Floats) -> Floats:
    """Share of each row of ``sent`` (rows, hops) that equal hops do not explain; shape (rows,)."""
    rest = sent - sent.mean(axis=1, keepdims=True)
    share: Floats = np.linalg.norm(rest, axis=1) / np.linalg.norm(sent, axis=1)
    return share


def _differences(sent: Floats, expected: Floats) -> Floats:
    """Share of ``sent`` (hops,) that each multiple of ``expected`` (rows, hops) leaves."""
    away = sent - _units(sent, expected)[:, None] * expected
    rest: Floats = np.linalg.norm(away, axis=1) / np.linalg.norm(sent)
    return rest


def _units(sent: Floats, expected: Floats) -> Floats:
    """What one server adds to ``sent`` (hops,), by each row of ``expected`` (rows, hops)."""
    units: Floats = expected @ sent / (expected**2).sum(axis=1)
    return units


@cache
def _absences(hops: int, ranks: tuple[int, ...]) -> tuple[list[Place], Floats]:
    """All ranks that may be missing from a ring, and what each of its ``hops`` then sends."""
    kinds = [(None, 1), *((rank, count) for count in ranks if count > 1 for rank in range(count))]
    every = [
        ((place, rank, count), np.roll(_expected(hops, count, rank), place))
        for place in range(hops)
        for rank, count in kinds
    ]
    shown = [(place, expected) for place, expected in every if expected.any()]
    sent = np.array([expected for _, expected in shown]).reshape(-1, hops)
    return [place for place, _ in shown], sent


def _expected(hops: int, ranks: int, rank: int | None) -> Floats:
    """What each hop sends, from the one that leaves the server on; a server adds 1."""
    if rank is None:
        return np.append(np.arange(hops - 1.0), 0.0)
    behind = (ranks - 1 - rank) / ranks
    sends = behind + np.arange(float(hops))
    return sends if rank else np.append(sends[:-1], 0.0)
