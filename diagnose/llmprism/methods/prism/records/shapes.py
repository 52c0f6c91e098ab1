"""What records show without steps: from who sends how much to whom.

A *ring* is a circle of at least three endpoints, each of which sends to one other endpoint, equal
volumes, and gets nearly nothing back: the way of ring all-reduces, all-gathers and reduce-scatters.
Ranks of a pipeline send activations one way and as many bytes of gradients back. So two-way pairs
are of a pipeline where they lead from every member of one ring to a member of the next, and three
rings or more are so joined to a line; the rings are data-parallel.

Two rings that are joined may as well be tensor-parallel groups with two replicas, since a group of
two exchanges equal volumes as a pipeline does. Tied embeddings join the ends of a line to a circle.
Nothing is claimed about these; rings that nothing joins are data-parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from llmprism.methods.prism.parameters import MOSTLY, QUARTER, SMALL
from llmprism.methods.prism.records.connections import Connections, carry_within
from llmprism.numerics.arrays import Codes
from llmprism.numerics.graph import components, groups

CONFIDENCE = 0.85
SHORTEST = 3  # members of a ring, or rings of a line: two exchange volumes as a pipeline does
SOME = 0.01  # of the same: less is not of a pipeline

Pair = tuple[int, int]


@dataclass(frozen=True)
class Line:
    """Rings that two-way pairs join to a line: the stages of a pipeline.

    Attributes
    ----------
    rings : endpoints of each ring, in its order; rings in any order.
    joins : pairs (sender, receiver) between them.
    """

    rings: tuple[tuple[int, ...], ...]
    joins: tuple[Pair, ...] = ()

    @property
    def chains(self) -> tuple[frozenset[int], ...]:
        """Endpoints of each pipeline."""
        if not self.joins:
            return ()
        src, dst = np.array(self.joins, np.int32).T
        return groups(src, dst, int(max(src.max(), dst.max())) + 1)

    def kinds(self) -> dict[Pair, str]:
        """Kind of each pair (sender, receiver)."""
        hops = chain.from_iterable(zip(own, (*own[1:], own[0]), strict=True) for own in self.rings)
        return dict.fromkeys(hops, "dp") | dict.fromkeys(self.joins, "pp")


def lines_of(connections: Connections, endpoints: Codes) -> list[Line]:
    """The lines of rings among the ``endpoints`` of one job, also of a single ring each."""
    volume = _volumes(connections, endpoints)
    rings = list(_rings(volume))
    joins = _joins(volume, rings)
    found = []
    for together in _joined(len(rings), joins):
        inside = {ends: pairs for ends, pairs in joins.items() if ends[0] in together}
        if len(together) == 1 or _is_line(together, inside):
            own = tuple(tuple(rings[number]) for number in together)
            found.append(Line(own, tuple(chain.from_iterable(inside.values()))))
    return found


def rings_since(connections: Connections, endpoints: Codes, begin_ns: int) -> list[Line]:
    """The rings among the ``endpoints`` of one job on which nothing moves before ``begin_ns``."""
    early = carry_within(connections, endpoints) & (connections.first_ns < begin_ns)
    moved = set(zip(connections.src[early].tolist(), connections.dst[early].tolist(), strict=True))
    every = [Line((tuple(ring),)) for ring in _rings(_volumes(connections, endpoints))]
    return [one for one in every if moved.isdisjoint(one.kinds())]


def _volumes(connections: Connections, endpoints: Codes) -> dict[Pair, int]:
    """Bytes of each pair of ``endpoints``."""
    total: dict[Pair, int] = {}
    for one in np.flatnonzero(carry_within(connections, endpoints)).tolist():
        pair = int(connections.src[one]), int(connections.dst[one])
        total[pair] = total.get(pair, 0) + int(connections.total_bytes[one])
    return total


def _above(volume: dict[Pair, int], share: float) -> dict[Pair, int]:
    """Pairs that carry a ``share`` of what their sender sends to any one other."""
    most: dict[int, int] = {}
    for (src, _), own in volume.items():
        most[src] = max(most.get(src, 0), own)
    return {pair: own for pair, own in volume.items() if own >= share * most[pair[0]]}


def _rings(volume: dict[Pair, int]) -> Iterator[list[int]]:
    """Endpoints of each ring, in its order."""
    one_way = [
        pair
        for pair, own in _above(volume, QUARTER).items()
        if volume.get(pair[::-1], 0) <= QUARTER * own
    ]
    following, before = _only(one_way), _only([pair[::-1] for pair in one_way])
    left = {end for end, other in following.items() if before.get(other) == end}
    while left:
        ring = [left.pop()]
        while following[ring[-1]] in left:
            ring.append(following[ring[-1]])
            left.remove(ring[-1])
        own = [volume[end, following[end]] for end in ring]
        closed = following[ring[-1]] == ring[0]
        if closed and len(ring) >= SHORTEST and max(own) - min(own) <= SMALL * max(own):
            yield ring


def _only(pairs: list[Pair]) -> dict[int, int]:
    """The other end of each first end that has one only."""
    others: dict[int, list[int]] = {}
    for end, other in pairs:
        others.setdefault(end, []).append(other)
    return {end: found[0] for end, found in others.items() if len(found) == 1}


def _joins(volume: dict[Pair, int], rings: list[list[int]]) -> dict[Pair, list[Pair]]:
    """Two-way pairs that lead from each member of a ring to another ring, by both numbers."""
    ring_of = {end: number for number, ring in enumerate(rings) for end in ring}
    joins: dict[Pair, list[Pair]] = {}
    for (src, dst), own in _above(volume, SOME).items():
        back = volume.get((dst, src), 0)
        if src in ring_of and dst in ring_of and min(own, back) >= MOSTLY * max(own, back):
            joins.setdefault((ring_of[src], ring_of[dst]), []).append((src, dst))
    return {
        ends: pairs
        for ends, pairs in joins.items()
        if ends[0] != ends[1] and len({src for src, _ in pairs}) == len(rings[ends[0]])
    }


def _joined(rings: int, joins: dict[Pair, list[Pair]]) -> Iterator[list[int]]:
    """Numbers of the rings that are joined, directly or through others."""
    a, b = np.array(list(joins), np.int32).reshape(-1, 2).T
    label = components(a, b, rings)
    yield from (np.flatnonzero(label == one).tolist() for one in np.unique(label).tolist())


def _is_line(rings: list[int], joins: dict[Pair, list[Pair]]) -> bool:
    """Whether at least three rings are joined to a line."""
    neighbours = [sum(a == one for a, _ in joins) for one in rings]
    return len(rings) >= SHORTEST and sorted(neighbours) == [1, 1, *[2] * (len(rings) - 2)]
