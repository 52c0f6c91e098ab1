"""The collectives of a job: classes of connections, those that share a ring taken together.

Classes are connections that behave alike. The hops of one ring do not: some cross the fabric, some
do not, and a record ends or does not end where a hop waits. So one ring may be in several classes.
An endpoint of such a class only sends in it, or only receives. Classes that lack a direction at
some endpoint, and have endpoints in common, are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.numerics.arrays import Ints
from llmprism.numerics.graph import components_of_edges


@measured_once
def collectives_of(context: Context, job: JobView) -> list[KindOf]:
    """Classes of data-parallel traffic; each holds whole rings, where there are any."""
    found: list[KindOf] = []
    for part in job.phases.classes:
        if part.kind != "dp":
            continue
        if _is_whole(context, part):
            found.append(part)
            continue
        shared = [other for other in found if _share_ring(context, part, other)]
        found = [other for other in found if not any(other is one for one in shared)]
        found.append(_joined([part, *shared]))
    return found


@measured_once
def ring_numbers(context: Context, job: JobView) -> Ints:
    """Number of the data-parallel group of each connection, shape (connections,); -1 for others.

    Connections of one group may be in several classes.
    """
    number = np.full(len(context.connections), -1)
    for part in collectives_of(context, job):
        own = part.connections
        label = components_of_edges(context.connections.src[own], context.connections.dst[own])
        number[own] = number.max(initial=-1) + 1 + label
    return number


def _ends(context: Context, part: KindOf) -> tuple[set[int], set[int]]:
    """Endpoints that send, and those that receive."""
    own = part.connections
    return set(context.connections.src[own].tolist()), set(context.connections.dst[own].tolist())


def _is_whole(context: Context, part: KindOf) -> bool:
    """Whether each endpoint both sends and receives."""
    senders, receivers = _ends(context, part)
    return senders == receivers


def _share_ring(context: Context, one: KindOf, other: KindOf) -> bool:
    """Whether both lack a direction at an endpoint, and the other has it."""
    senders, receivers = _ends(context, one)
    theirs, to_them = _ends(context, other)
    return bool(
        (senders - receivers) & (to_them - theirs) | (receivers - senders) & (theirs - to_them)
    )


def _joined(parts: Sequence[KindOf]) -> KindOf:
    """Several classes as one."""
    if len(parts) == 1:
        return parts[0]
    traffic = [part.traffic for part in parts]
    order = np.argsort(np.concatenate([one.start_ns for one in traffic]), kind="stable")
    row, start, end, size, couple, forth = (
        np.concatenate([getattr(one, name) for one in traffic])[order]
        for name in ("row", "start_ns", "end_ns", "size", "couple", "forth")
    )
    connections = np.concatenate([part.connections for part in parts])
    one = TrafficClass(
        connections, parts[0].one.two_way, Traffic(row, start, end, size, couple, forth)
    )
    step = np.concatenate([part.step for part in parts])[order]
    return replace(parts[0], one=one, step=step)
