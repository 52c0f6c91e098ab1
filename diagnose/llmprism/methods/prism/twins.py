"""Twins: components that move the same bytes at the same moments.

The rings of a job whose ranks are joined over NVLink are components of their own, and each is
divided into steps alone. Where a window holds few steps, one division may be wrong, and nothing
in the steps shows then that the components belong together. The records do: tensor parallelism
makes the ranks of a server send the same messages at the same moments.

Two components are *twins* if they share a server, move the same volume in messages of the same
number, and if the messages of one begin when those of the other do. "When" is a comparison: the
distances to the nearest message are small beside the same distances after a shift in time.
Twins are divided into steps again, as one component.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes import Component, classes_of, components
from llmprism.methods.prism.connections import Connections
from llmprism.methods.prism.stepping import Part, find_steps
from llmprism.numerics.arrays import Codes, Ints

ALIKE = 0.1  # difference in volume and messages of twins, as a share
AT_ONCE = 0.1  # distance between messages that begin together, over that after a shift
SHIFTS = (0.31, 0.5, 0.69)  # of the median time between bursts
UNEQUAL = 1  # difference in the numbers of steps that needs no explanation
FEWEST = 16  # bursts that tell anything


def with_twins(
    flows: FlowTable, connections: Connections, parts: list[Part], servers: Codes
) -> list[Part]:
    """``parts``, with twins whose numbers of steps disagree replaced by one part."""
    pairs = [
        (i, j)
        for i in range(len(parts))
        for j in range(i)
        if abs(parts[i].stepping.count - parts[j].stepping.count) > UNEQUAL
        and _twins(connections, parts[i].component, parts[j].component, servers)
    ]
    if not pairs:
        return parts
    src, dst = np.array([*pairs, *((j, i) for i, j in pairs)], np.int32).T
    label = components(len(parts), src, dst)
    united = []
    for one in dict.fromkeys(label.tolist()):
        own = [part for part, mark in zip(parts, label, strict=True) if mark == one]
        united.append(own[0] if len(own) == 1 else _united(flows, connections, own))
    return united


def _twins(connections: Connections, one: Component, other: Component, servers: Codes) -> bool:
    shared = np.intersect1d(servers[one.endpoints], servers[other.endpoints])
    if shared.size == 0 or len(one.classes) != len(other.classes):
        return False
    for ours, theirs in zip(one.classes, other.classes, strict=True):
        for values in ((ours.bytes, theirs.bytes), (len(ours.traffic), len(theirs.traffic))):
            if abs(values[0] - values[1]) > ALIKE * max(values):
                return False
    starts = [_starts(connections, part, servers, shared) for part in (one, other)]
    return min(begun.size for begun in starts) >= FEWEST and _at_once(starts[0], starts[1])


def _starts(connections: Connections, one: Component, servers: Codes, shared: Codes) -> Ints:
    """Starts [ns] of what one endpoint on a ``shared`` server sends in the largest class."""
    traffic, src = one.classes[0].traffic, connections.src
    senders = src[connections.of_row[traffic.row]]
    near = senders[np.isin(servers[senders], shared)]
    return traffic.start_ns[senders == near[0]] if near.size else np.empty(0, np.int64)


def _at_once(ours: Ints, theirs: Ints) -> bool:
    """Whether ``ours`` lie much closer to ``theirs`` than they do after any shift in time."""
    gap_ns = float(np.median(np.diff(ours)))
    away = _to_nearest(ours, theirs)
    shifted = [_to_nearest(ours + round(share * gap_ns), theirs) for share in SHIFTS]
    return away <= AT_ONCE * min(shifted)


def _to_nearest(ours: Ints, theirs: Ints) -> float:
    """Median distance of ``ours`` to the nearest of ``theirs`` [ns]."""
    after = np.searchsorted(theirs, ours).clip(1, theirs.size - 1)
    away = np.minimum(np.abs(ours - theirs[after - 1]), np.abs(theirs[after] - ours))
    return float(np.median(away))


def _united(flows: FlowTable, connections: Connections, parts: list[Part]) -> Part:
    """One part of all connections of ``parts``, with steps of its own."""
    ends = np.unique(np.concatenate([part.component.endpoints for part in parts]))
    own = [one.connections for part in parts for one in part.component.classes]
    classes = classes_of(flows, connections, np.sort(np.concatenate(own)))
    component = Component(ends.astype(np.int32), classes)
    return Part(component, find_steps(component))
