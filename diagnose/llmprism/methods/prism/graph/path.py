"""The critical path of every step: the chain of edges that decides when the step ends.

From the operation that ends last, the path goes back to the rank that joined it last, through what
that rank waited for, and so on to the step before. Its edges fill the whole step, so what a step
takes longer than usual is the sum of what its edges take longer.

Of ranks that join at the same moment, all but one may have waited for the last. That is one that
took least longer than normal: who waits takes longer in addition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.graph.durations import StepGraph
from llmprism.methods.prism.graph.nodes import Nodes
from llmprism.methods.prism.graph.rendezvous import Rendezvous
from llmprism.numerics.arrays import Codes, Floats, Grouped, Ints, grouped
from llmprism.numerics.edges import Usual


@dataclass(frozen=True)
class PathTimes:
    """Time on the critical path in each step [ns]: of ranks, and of communicators.

    Attributes
    ----------
    compute, transfer : what their edges on the path take, (ranks, steps), (communicators, steps).
    transfer_longer : what of that is longer than normal, (communicators, steps).
    """

    compute: Floats
    transfer: Floats
    transfer_longer: Floats


def times_on_path(
    graph: StepGraph, normal: tuple[Usual, Usual], ranks: int, rendezvous: Rendezvous
) -> PathTimes:
    """Walk the critical path of each step; ``normal`` durations of computations and transfers.

    Of those who join at the same moment, see :class:`~.rendezvous.Rendezvous`.
    """
    nodes = graph.nodes
    steps = nodes.begin.shape[1]
    members = grouped(rendezvous.of[nodes.operation], len(nodes.begin))
    compute = np.zeros((ranks, steps))
    transfer, transfer_longer = np.zeros((2, len(nodes.communicators), steps))
    for step in range(steps):
        for node, together, duration in _path(graph, rendezvous, members, normal[0], step):
            if together is None:
                usual = normal[1].at(node, step)
                at = nodes.communicator[node], step
                transfer[at] += duration
                transfer_longer[at] += duration - usual if np.isfinite(usual) else 0.0
            else:
                compute[nodes.rank[node], step] += duration
    return PathTimes(compute, transfer, transfer_longer)


def _known(nodes: Nodes, operation: int, step: int) -> int:
    """An operation, or the last one before it in its communicator whose begin is known.

    Where nothing shows the border between two of them, one follows the other at once.
    """
    first = int(np.searchsorted(nodes.communicator, nodes.communicator[operation]))
    known = np.flatnonzero(np.isfinite(nodes.begin[first : operation + 1, step]))
    return first + int(known[-1]) if known.size else operation


def _path(
    graph: StepGraph, rendezvous: Rendezvous, members: Grouped, normal: Usual, step: int
) -> Iterator[tuple[int, Codes | Ints | None, float]]:
    """Edges of one step, from its end: node, who joined with it, and duration.

    Nobody joins a transfer. Where a coarse clock shows operations at once that wait for each other,
    the path ends. ``members`` are participations by rendezvous.
    """
    nodes = graph.nodes
    ends = nodes.end[:, step]
    if not np.isfinite(ends).any():
        return
    operation = int(np.nanargmax(ends))
    until = float(ends[operation])
    operation = _known(nodes, operation, step)
    passed: set[int] = set()
    while operation not in passed:
        passed.add(operation)
        met = int(rendezvous.of[operation])
        own = members.rows(met)
        joins = nodes.join[own, step]
        if not np.isfinite(joins).any():
            return
        together = own[joins >= np.nanmax(joins) - rendezvous.together_ns[met]]
        longer = graph.compute[together, step] - normal.at(together, step)
        least = np.nan_to_num(longer, nan=np.inf)
        node = int(together[np.argmin(least)])
        yield operation, None, max(until - float(nodes.join[node, step]), 0.0)
        while True:
            if np.isfinite(graph.compute[node, step]):
                yield node, together, float(graph.compute[node, step])
            parent = int(graph.parent[node, step])
            if not graph.after_join[node, step]:
                break
            node, together = parent, np.array([parent])
        if parent < 0:
            return
        operation = _known(nodes, int(nodes.operation[parent]), step)
        until = float(nodes.arrive[parent, step])
