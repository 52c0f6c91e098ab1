"""Collectives by halving: reductions between partners that exchange half as much each time.

In Rabenseifner's all-reduce among ``2^k`` ranks a rank exchanges half of the gradients with its
first partner, a quarter with the second, and so on, and gathers them in the opposite order. Its
couples with ``k`` partners have volumes of 1, 1/2, 1/4, ... No other traffic of a job has so exact
a sequence of three or more at every rank: activations and gradients of a model do not depend on
each other. Who begins, rests or sends more for a while says nothing against it.

Of other numbers of ranks, as many as exceed a power of two leave their gradients to a partner: such
a *guest* gets half of its partner's gradients first and all sums last, 3/2 of what it sends. The
others exchange 1, 1/2, ... of what a guest sends. These volumes, and that there are as many guests
as must be, show such a group. Four ranks have two sizes only. They are believed if they are exact
at all four: gradients of two stages of a pipeline differ, and activations are no half of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.parameters import EQUAL, FEWEST, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Floats, Ints

MOST = 10  # partners of a rank, of 1,024 ranks
GUESTS = 0.05  # by which those of a group with guests differ, where records are lost
FINELY = 0.005  # ... of four ranks, whose volumes of two sizes could be a pipeline's otherwise
LEAST_LEVELS = 2  # sizes of volumes of a group without guests
GUEST = 1.5  # what a guest gets over what it sends

Pair = tuple[int, int]


def halving(
    connections: Connections,
    classes: Sequence[TrafficClass],
    volumes: Sequence[Floats] | None = None,
) -> set[int]:
    """Indices of the ``classes`` whose couples are all part of an all-reduce by halving.

    ``volumes`` are the bytes of the connections of each class in a whole step, where known. Those
    of all steps are exact where records are merged, so that they may count to a step too early.
    """
    totals = [connections.total_bytes[one.connections].astype(float) for one in classes]
    groups = _in_whole_groups(connections, classes, totals if volumes is None else volumes)
    if not groups and volumes is not None:
        groups = _in_whole_groups(connections, classes, totals)
    return _of_powers(connections, classes) | groups


def _of_powers(connections: Connections, classes: Sequence[TrafficClass]) -> set[int]:
    """Those of the ``classes`` that are among ``2^k`` ranks, eight or more."""
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
        if (np.abs(volume[own] - usual) <= SMALL * usual).all():
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
        while any(abs(one - wanted) <= EQUAL * wanted for one in among):
            length += 1
            wanted *= factor
    return length


def _in_whole_groups(
    connections: Connections, classes: Sequence[TrafficClass], volumes: Sequence[Floats]
) -> set[int]:
    """Those of the ``classes`` that are among four ranks, or among some of which are guests."""
    ends = connections.src, connections.dst
    pairs = [
        list(zip(*(side[one.connections].tolist() for side in ends), strict=True))
        for one in classes
    ]
    moved: dict[int, dict[int, float]] = {}
    for own, sizes in zip(pairs, volumes, strict=True):
        for (a, b), size in zip(own, sizes.tolist(), strict=True):
            moved.setdefault(a, {})[b] = moved.get(a, {}).get(b, 0.0) + size
    known: set[Pair] = set()
    for host, sent in moved.items():
        for other, forth in sent.items():
            back = moved.get(other, {}).get(host, 0.0)
            if (host, other) in known:
                continue
            if _is(forth, GUEST * back):
                known |= _group_of(moved, host, back, GUESTS)
            elif _is(forth, back, FINELY):
                known |= _group_of(moved, host, forth, FINELY)
    return {i for i, own in enumerate(pairs) if known.issuperset(own)}


def _group_of(
    moved: Mapping[int, Mapping[int, float]], host: int, gradients: float, within: float
) -> set[Pair]:
    """Pairs of the group of ``host`` that reduces so many bytes; empty if it is no such group."""
    shares = [gradients / 2**i for i in range(MOST)]
    partners: dict[int, dict[int, int]] = {}
    guests: dict[int, int] = {}
    found, waiting = {host}, [host]
    while waiting:
        one = waiting.pop()
        partners[one] = {}
        for other, forth in moved.get(one, {}).items():
            back = moved.get(other, {}).get(one, 0.0)
            if _is(forth, GUEST * gradients, within) and _is(back, gradients, within):
                guests[other] = one
            for level, share in enumerate(shares):
                if _is(forth, share, within) and _is(back, share, within):
                    partners[one][level] = other
                    waiting += [other] if other not in found else []
                    found.add(other)
    levels = set(range(len(found).bit_length() - 1))
    whole = all(set(own) == levels for own in partners.values())
    if not whole or len(found) != 2 ** len(levels) or len(guests) >= len(found):
        return set()
    if not guests and len(levels) < LEAST_LEVELS:
        return set()
    couples = [(one, other) for one, own in partners.items() for other in own.values()]
    couples += list(guests.items())
    return {pair for one, other in couples for pair in ((one, other), (other, one))}


def _is(size: float, wanted: float, within: float = GUESTS) -> bool:
    return abs(size - wanted) <= within * wanted
