"""Divide the collectives of a pipeline by its stages.

Each stage has collectives of its own: gradients of stages differ in volume, and the last stage
reduces them first. So the kinds of traffic are judged for each stage alone. The endpoints that
collectives join, directly or through others, are one stage.

Records that bridge silences, or hold samples, may neither show single messages nor who waits for
whom. The shape remains: three or more members in a line, with traffic both ways, are the stages of
a pipeline, or an all-reduce along a tree. A tree stays inside a data-parallel group, and the stages
of a pipeline are in different ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.kinds.characters import Character, Set
from llmprism.methods.prism.kinds.dense import main_class
from llmprism.methods.prism.kinds.members import is_line, joined
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes
from llmprism.numerics.graph import components_of_edges

Own = tuple[TrafficClass, Codes]


def by_stage(connections: Connections, own: Sequence[Own]) -> list[list[Own]]:
    """``own``, classes with the step of each record, divided by the endpoints they join."""
    if not own:
        return []
    chosen = np.concatenate([one.connections for one, _ in own])
    label = components_of_edges(connections.src[chosen], connections.dst[chosen])
    stages: dict[int, list[Own]] = {}
    borders = np.cumsum([one.connections.size for one, _ in own])
    for (one, step), of_connection in zip(own, np.split(label, borders[:-1]), strict=True):
        for stage in np.unique(of_connection).tolist():
            inside = of_connection == stage
            part = (one, step) if inside.all() else _part(connections, one, step, inside)
            stages.setdefault(stage, []).append(part)
    return list(stages.values())


def _part(connections: Connections, one: TrafficClass, step: Codes, inside: Bools) -> Own:
    """The connections of a class that are ``inside``, with their records."""
    kept = one.connections[inside]
    traffic = one.traffic
    rows = np.flatnonzero(np.isin(connections.of_row[traffic.row], kept))
    couple = np.unique(traffic.couple[rows], return_inverse=True)[1].astype(np.int32)
    own = Traffic(
        traffic.row[rows], traffic.start_ns[rows], traffic.end_ns[rows], traffic.size[rows],
        couple, traffic.forth[rows],
    )  # fmt: skip
    return TrafficClass(kept, one.two_way, own), step[rows]


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
