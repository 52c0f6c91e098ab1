"""Which classes are one exchange, and which are exchanges along different axes of parallelism.

Every rank has one place along each axis: data, tensor, expert and context parallelism. An exchange
joins ranks that differ along one axis only. So a group of one exchange and a group of an exchange
along another axis have at most one member in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmprism.methods.prism.kinds.characters import Character
from llmprism.methods.prism.kinds.members import is_closed, joined

ALIKE = 1.3  # ratio of messages a step up to which two classes may be one exchange


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
