"""The critical path of every step: the chain of edges that decides when the step ends.

From the operation that ends last, the path goes back to the rank that joined it last, through what
that rank waited for, and so on to the step before. Its edges fill the whole step, so what a step
takes longer than usual is the sum of what its edges take longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.graph.durations import StepGraph
from llmprism.numerics.arrays import Floats, Ints


@dataclass(frozen=True)
class PathTimes:
    """Time on the critical path in each step [ns]: of ranks, and of communicators.

    Attributes
    ----------
    compute, transfer : what their edges on the path take, (ranks, steps), (communicators, steps).
    compute_longer, transfer_longer : what of that is longer than normal; of the same shapes.
    """

    compute: Floats
    transfer: Floats
    compute_longer: Floats
    transfer_longer: Floats


def times_on_path(graph: StepGraph, normal: tuple[Floats, Floats], ranks: int) -> PathTimes:
    """Walk the critical path of each step; ``normal`` durations of computations and transfers."""
    nodes = graph.nodes
    steps = nodes.begin.shape[1]
    by_operation = np.argsort(nodes.operation, kind="stable")
    offsets = np.searchsorted(nodes.operation[by_operation], np.arange(len(nodes.begin) + 1))
    times = PathTimes(*(np.zeros((rows, steps)) for rows in (ranks, len(nodes.communicators)) * 2))
    for step in range(steps):
        for node, is_transfer, duration in _path(graph, by_operation, offsets, step):
            usual = normal[1 if is_transfer else 0][node, step]
            longer = duration - usual if np.isfinite(usual) else 0.0
            if is_transfer:
                times.transfer[nodes.communicator[node], step] += duration
                times.transfer_longer[nodes.communicator[node], step] += longer
            else:
                times.compute[nodes.rank[node], step] += duration
                times.compute_longer[nodes.rank[node], step] += longer
    return times


def _path(
    graph: StepGraph, by_operation: Ints, offsets: Ints, step: int
) -> list[tuple[int, bool, float]]:
    """Edges of one step, from its end: node, whether it is a transfer, and duration."""
    nodes = graph.nodes
    ends = nodes.end[:, step]
    if not np.isfinite(ends).any():
        return []
    operation = int(np.nanargmax(ends))
    until = float(ends[operation])
    path: list[tuple[int, bool, float]] = []
    while len(path) < 2 * len(nodes.rank):
        own = by_operation[offsets[operation] : offsets[operation + 1]]
        joins = nodes.join[own, step]
        if not np.isfinite(joins).any():
            break
        node = int(own[int(np.nanargmax(joins))])
        path.append((operation, True, max(until - float(nodes.join[node, step]), 0.0)))
        while np.isfinite(graph.compute[node, step]):
            path.append((node, False, float(graph.compute[node, step])))
            if not graph.after_join[node, step]:
                break
            node = int(graph.parent[node, step])
        parent = int(graph.parent[node, step])
        if parent < 0 or graph.after_join[node, step]:
            break
        operation, until = int(nodes.operation[parent]), float(nodes.arrive[parent, step])
    return path
