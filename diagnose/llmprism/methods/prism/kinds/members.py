"""Shapes of groups of endpoints: who sends to whom, and which groups overlap.

Every rank has one place along each axis: data, tensor, expert and context parallelism. An exchange
joins ranks that differ along one axis only. So a group of one exchange and a group of an exchange
along another axis have at most one member in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.kinds.characters import Character, Set
from llmprism.methods.prism.parameters import MOSTLY, QUARTER

COUPLE = 2  # members of a group whose ring and whose chain have the same edges
ALIKE = 1.3  # ratio of messages a step up to which two classes may be one exchange


def joined(groups: Sequence[tuple[Set, ...]]) -> list[Set]:
    """Unions of groups that overlap."""
    found: list[Set] = []
    for group in (g for own in groups for g in own):
        touching = [old for old in found if old & group]
        found = [old for old in found if not old & group]
        found.append(frozenset().union(group, *touching))
    return found


def is_ring(pairs: frozenset[tuple[int, int]]) -> bool:
    """Whether every member sends to exactly one and receives from exactly one."""
    out = np.unique([a for a, _ in pairs], return_counts=True)[1]
    into = np.unique([b for _, b in pairs], return_counts=True)[1]
    return bool((out == 1).all() and (into == 1).all() and out.size == into.size)


def is_closed(one: Character) -> bool:
    """Whether every member both sends and receives: edges that are left out of a ring do not."""
    return {a for a, _ in one.pairs} == {b for _, b in one.pairs}


def partners(one: Character) -> int:
    """The most partners that a member sends to."""
    return int(np.unique([a for a, _ in one.pairs], return_counts=True)[1].max())


def is_line(one: Character) -> bool:
    """Whether each group is a line of three or more members, who send both ways to the next."""
    couples = {frozenset(pair) for pair in one.pairs}
    both = len(one.pairs) == 2 * len(couples)
    members = sum(len(group) for group in one.groups)
    tree = len(couples) == members - len(one.groups)
    return both and tree and min(len(g) for g in one.groups) > 2 and partners(one) == 2


def reduced_at_member(characters: Sequence[Character], candidates: set[int]) -> set[int]:
    """Those of the ``candidates`` whose traffic meets in a member, so that it passes nothing on.

    A stage of a pipeline between two others gets activations from one of them, and sends to the
    other one before that answers. A member that begins with none of its partners reduces what they
    have: the root of a tree, or a rank that reduces for one that exceeds a power of two.
    """
    begins: dict[int, list[float]] = {}
    for one, other, share in (couple for i in candidates for couple in characters[i].begun):
        begins.setdefault(one, []).append(share)
        begins.setdefault(other, []).append(-share)
    middle = {
        end
        for end, shares in begins.items()
        if len(shares) > 1 and max(shares) < QUARTER and min(shares) <= -MOSTLY
    }
    return {
        i for i in candidates if any(not middle.isdisjoint(group) for group in characters[i].groups)
    }


def union(own: Sequence[Character]) -> Character:
    """The first of some classes, with the groups and pairs of all of them."""
    pairs = frozenset().union(*(one.pairs for one in own))
    groups = tuple(joined([one.groups for one in own]))
    return replace(own[0], groups=groups, pairs=pairs)


def apart(characters: Sequence[Character], among: Sequence[int]) -> list[list[int]]:
    """The exchanges ``among`` classes: those with about as many messages a step, by their axes.

    Volumes of experts differ, so an exchange may be several classes.
    """
    found: list[list[int]] = []
    for i in sorted(among, key=lambda i: characters[i].messages):
        if found and characters[i].messages <= ALIKE * characters[found[-1][0]].messages:
            found[-1].append(i)
        else:
            found.append([i])
    return [axis for together in found for axis in _axes(characters, together)]


def _axes(characters: Sequence[Character], together: Sequence[int]) -> list[list[int]]:
    """``together`` apart, where classes are groups along different axes of one lattice.

    Such groups have no two members in common. Experts of unequal volume may not either, but then
    their messages are of many sizes.
    """
    found: list[list[int]] = []
    for i in together:
        beside = [own for own in found if any(_is_beside(characters, i, j) for j in own)]
        found = [own for own in found if own not in beside]
        found.append(sorted([i, *(j for own in beside for j in own)]))
    return found


def _is_beside(characters: Sequence[Character], i: int, j: int) -> bool:
    """Whether two classes may be parts of one exchange."""
    one, other = characters[i], characters[j]
    if not any(own.alike and is_closed(own) for own in (one, other)):
        return True
    return any(len(group & wide) > 1 for group in one.groups for wide in other.groups)
