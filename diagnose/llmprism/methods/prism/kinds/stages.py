"""Divide the collectives of a pipeline by its stages.

Each stage has collectives of its own: gradients of stages differ in volume, and the last stage
reduces them first. So the kinds of traffic are judged for each stage alone. The endpoints that
collectives join, directly or through others, are one stage.

Records that bridge silences, or hold samples, may neither show single messages nor who waits for
whom. The shape remains: three or more members in a line, with traffic both ways, are the stages of
a pipeline, or an all-reduce along a tree. A tree stays inside a data-parallel group, and the stages
of a pipeline are in different ones.

A stage reduces gradients once they are computed, so its data-parallel traffic ends after its last
backward pass, when it has sent its last gradient to the stage before it. If all collectives of a
stage end with its passes, they are exchanges of a tensor-parallel group: the pipeline has no other
replica, or its replicas share servers. The first stage sends no gradients, so the others show what
it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.kinds.characters import Character, Set
from llmprism.methods.prism.kinds.dense import main_class
from llmprism.methods.prism.kinds.members import is_line, joined
from llmprism.methods.prism.parameters import MOSTLY, SURE
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.graph import components_of_edges
from llmprism.numerics.missing import finite_median
from prism_common.threads import in_threads

Own = tuple[TrafficClass, Codes]
MIDDLE = 0.5  # of the passes: what ends earlier may be the gradients of the step before


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


def within_passes(
    connections: Connections,
    stages: Sequence[Sequence[KindOf]],
    pipeline: Sequence[Own],
    count: int,
) -> list[list[KindOf]]:
    """``stages`` with the kind ``tp`` for gradients, if they are over before the passes are."""
    shown = in_threads(lambda own: _shown(connections, own, pipeline, count), stages)
    later = [begin for begin, over in shown if over]
    first = [begin for begin, over in shown if not over]
    if not later or max(first, default=-np.inf) >= min(later):
        return [list(own) for own in stages]
    return [
        [replace(one, kind="tp", confidence=SURE) if one.kind == "dp" else one for one in own]
        for own in stages
    ]


def _shown(
    connections: Connections, own: Sequence[KindOf], pipeline: Sequence[Own], count: int
) -> tuple[float, bool]:
    """When a stage sends its first message of a step [ns], median over steps; NaN for none.

    And whether all of its collectives end before it sends its last message, in most steps.
    """
    chosen = np.concatenate([one.connections for one in own])
    members = np.union1d(connections.src[chosen], connections.dst[chosen])
    ended, tick = np.full(count, -np.inf), 1
    for one in own:
        known = one.step >= 0
        np.maximum.at(ended, one.step[known], one.traffic.end_ns[known].astype(np.float64))
        tick = max(tick, clock_tick_ns(one.traffic.end_ns))
    first, last = _sent(connections, members, pipeline, count)
    known = np.isfinite(first) & np.isfinite(ended)
    begin, end, until = first[known], ended[known], last[known]
    over = (end <= until + tick) & (end > begin + MIDDLE * (until - begin))
    return finite_median(first), bool(known.any() and over.mean() >= MOSTLY)


def _sent(
    connections: Connections, members: Ints, pipeline: Sequence[Own], count: int
) -> tuple[Floats, Floats]:
    """When ``members`` begin to send their first and last message of a step; not finite if none."""
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    sends = np.isin(connections.src, members)
    for one, step in pipeline:
        own: Bools = sends[connections.of_row[one.traffic.row]] & (step >= 0)
        start = one.traffic.start_ns[own].astype(np.float64)
        np.minimum.at(first, step[own], start)
        np.maximum.at(last, step[own], start)
    return first, last
