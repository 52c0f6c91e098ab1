"""Pipelines by their shape: couples that go both ways and join one stage to the next in a line.

A record that bridges silences, or holds samples, may show neither single messages nor who waits
for whom. The shape remains. A collective whose members exchange with their neighbours goes round a
ring, and each hop goes one way; experts send to everyone. So three members or more in a line, with
traffic both ways, are the stages of a pipeline, or an all-reduce along a tree. A tree stays inside
a data-parallel group. Stages lead from one group to another: no two of a line are in one group, and
each of them is in some.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.kinds.characters import Character, Set
from llmprism.methods.prism.kinds.dense import main_class
from llmprism.methods.prism.kinds.members import is_line, joined
from llmprism.numerics.arrays import Codes


def lines(
    own: Sequence[tuple[TrafficClass, Codes]], characters: Sequence[Character], among: set[int]
) -> set[int]:
    """Those of the classes ``among`` that join members of data-parallel groups to lines."""
    shaped = {i for i in among if own[i][0].two_way and is_line(characters[i])}
    main = main_class(own, characters)
    shaped.discard(main)
    wide = joined([characters[i].groups for i in range(len(own)) if i not in shaped])
    return {
        i for i in shaped
        if all(_crosses(group, wide) for group in characters[i].groups)
        and _begins_before(characters[i], characters[main])
    }  # fmt: skip


def _crosses(group: Set, wide: Sequence[Set]) -> bool:
    """Whether each member of a ``group`` is in another one of the ``wide`` groups."""
    return (
        sum(len(group & one) for one in wide)
        == len(group)
        == sum(bool(group & one) for one in wide)
    )


def _begins_before(one: Character, main: Character) -> bool:
    """Whether a class begins before the gradients in most steps."""
    return float(np.nanmedian(main.first_ns - one.first_ns)) > 0
