"""Divide the collectives of a pipeline by its stages.

Each stage has collectives of its own: gradients of stages differ in volume, and the last stage
reduces them first. So the kinds of traffic are judged for each stage alone. The endpoints that
collectives join, directly or through others, are one stage.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.records.traffic import Traffic
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
