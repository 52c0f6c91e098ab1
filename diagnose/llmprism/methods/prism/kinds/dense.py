"""The class of the dense parameters, among the collectives of a component.

*Dense* parameters are those that all replicas share, unlike experts. The gradients of the dense
parameters end a step, join the most members, and begin late, in the last backward pass. Other
collectives are compared with them (:mod:`~llmprism.methods.prism.kinds.exchanges`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.kinds.characters import Character
from llmprism.methods.prism.kinds.members import partners
from llmprism.methods.prism.parameters import EQUAL, QUARTER, SMALL
from llmprism.numerics.arrays import Codes, Floats

LITTLE = 0.01  # of the largest collective: gradients, where all larger ones move all through passes
MANY = 3  # partners from which an exchange is all-to-all


def main_class(own: Sequence[tuple[TrafficClass, Codes]], characters: Sequence[Character]) -> int:
    """The class of the dense parameters: it ends a step, joins the most, and begins late.

    It is no exchange of everyone with everyone, as that of experts is, if another one ends a step
    as well: where servers hide a part of its members, a ring joins fewer.
    """
    large = large_classes(own)
    if not large:
        return -1
    if not any(_is_late(characters[i], [characters[j] for j in large]) for i in large):
        large = large_classes(own, LITTLE)
    period = period_of_begins(np.fmin.reduce([characters[i].first_ns for i in large]))
    end = np.fmax.reduce([characters[i].last_ns for i in large])

    def preference(i: int) -> tuple[bool, bool, bool, int, float, float]:
        one = characters[i]
        ends = float(np.nanmedian(end - one.last_ns)) <= EQUAL * period
        rests = _is_late(one, [characters[j] for j in large])
        return (
            ends,
            rests,
            partners(one) < MANY,
            max(len(group) for group in one.groups),
            round(one.rest, 1),
            own[i][0].bytes,
        )

    return max(large, key=preference)


def large_classes(own: Sequence[tuple[TrafficClass, Codes]], least: float = SMALL) -> list[int]:
    """The classes whose bytes are comparable with those of the largest one."""
    most = max((one.bytes for one, _ in own), default=0.0)
    return [i for i, (one, _) in enumerate(own) if one.bytes >= least * most]


def _is_late(one: Character, characters: Sequence[Character]) -> bool:
    """Whether a class rests, or begins late, as gradients do."""
    return one.rest > QUARTER or begins_later(one, characters)


def begins_later(one: Character, characters: Sequence[Character]) -> bool:
    """Whether a class begins clearly after the first of ``characters``."""
    begin = np.fmin.reduce([other.first_ns for other in characters])
    return float(np.nanmedian(one.first_ns - begin)) > SMALL * period_of_begins(begin)


def period_of_begins(begin: Floats) -> float:
    """Median time between the begins of steps [ns]; infinite for a single step."""
    known = begin[np.isfinite(begin)]
    return float(np.median(np.diff(known))) if known.size > 1 else np.inf
