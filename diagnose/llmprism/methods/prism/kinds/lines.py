"""Pipelines by their shape: couples with traffic both ways that form a line of stages.

Records that bridge silences, or hold samples, may neither show single messages nor who waits for
whom. The shape remains. In a ring each hop goes one way, and experts send to everyone. So three or
more members in a line, with traffic both ways, are the stages of a pipeline, or an all-reduce along
a tree. A tree stays inside a data-parallel group. The stages of a pipeline are in different
data-parallel groups.
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
