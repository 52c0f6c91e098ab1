"""Divide a ring that moves bytes in both directions into two classes, one for each direction.

Parameters may be gathered in one direction of a ring, and gradients reduced in the other one, in
records of equal sizes. Each direction rests while the other one moves, so both together may never
rest, and only one direction alone shows where steps end.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.classes import Component, TrafficClass, traffic_of
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes


def with_rings_apart(
    flows: FlowTable, connections: Connections, component: Component
) -> Component | None:
    """``component`` with both directions of each ring as two classes; None if there is no ring."""
    classes: list[TrafficClass] = []
    for one in component.classes:
        own = one.connections
        forth = one_way_round(connections.src[own], connections.dst[own]) if one.two_way else None
        ways = [own] if forth is None else [own[forth], own[~forth]]
        classes += [
            replace(one, connections=way, traffic=traffic_of(flows, connections, way))
            for way in ways
        ]
    if len(classes) == len(component.classes):
        return None
    return replace(component, classes=tuple(sorted(classes, key=lambda c: -c.bytes)))


def one_way_round(src: Codes, dst: Codes) -> Bools | None:
    """Which connections lead round their ring in one of its directions.

    None unless they are rings of at least three endpoints, with one connection each way in a hop.
    """
    others: dict[int, list[int]] = {}
    for a, b in zip(src.tolist(), dst.tolist(), strict=True):
        others.setdefault(a, []).append(b)
    if any(len(own) != 2 or own[0] == own[1] for own in others.values()):
        return None
    forth: set[tuple[int, int]] = set()
    for first, (ahead, _) in others.items():
        here = first
        while not any((here, b) in forth for b in others[here]):
            if here not in others.get(ahead, ()):
                return None
            forth.add((here, ahead))
            one, other = others[ahead]
            here, ahead = ahead, one if other == here else other
    return np.array([hop in forth for hop in zip(src.tolist(), dst.tolist(), strict=True)])
