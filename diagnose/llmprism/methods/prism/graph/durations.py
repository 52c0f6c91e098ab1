"""What each node waited for, learned from all steps, and how long the edges last.

A rank waits for messages, for collectives and for its own work. What it waits for before it joins
an operation is not known; but the order within a step is the same in every step. So its *parents*
are the arrivals and own joins that have come before it in all steps, and the latest of them in a
step is what it waited for. Computation is the time from there to the join. A parent that was not
needed makes a duration seem shorter in all steps alike.

A stage of a pipeline passes messages on in the order in which it gets them. So the message of some
number waits for none that has a larger number, unless its lane begins when all have arrived.

The step before is a parent too: the last thing that happened at the rank in it.

Ranks with one role do the same, so they have the same parents. What one of them shows in a step
holds for all: a rank that waits in some steps shows an order that others show in none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.graph.nodes import Nodes
from llmprism.methods.prism.parameters import NEAREST, VIOLATIONS
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.missing import nanmedian
from prism_common.compiled import compiled

NONE, STEP_BEFORE = -2, -1
OWN_JOINS = 2  # joins of a rank before another one that are tried: it does one thing at a time


@dataclass(frozen=True)
class StepGraph:
    """The nodes of a job, and the durations of its edges [ns]; NaN where unknown.

    Attributes
    ----------
    nodes : operations and participations.
    compute : of each participation's join since its latest parent, (participations, steps).
    parent : that parent: a participation, STEP_BEFORE, or NONE, (participations, steps). Where
        ``compute`` is not known, it is the latest one that is known.
    after_join : whether the parent is a join, not an arrival, (participations, steps).
    transfer : of each operation from its last join to its end, (operations, steps).
    position : of each join among those of its rank within a step; -1 for none.
    """

    nodes: Nodes
    compute: Floats
    parent: Codes
    after_join: Bools
    transfer: Floats
    position: Ints


def roles_of(nodes: Nodes, stage: Ints, servers: Ints) -> Ints:
    """A number for the ranks of one ``stage`` that join collectives for as many ranks.

    A ring enters a server at one NIC. So its rank joins for others there that never join any.
    """
    joins = np.zeros(stage.size, np.bool_)
    joins[nodes.rank[~nodes.are_messages[nodes.operation]]] = True
    beside = np.unique(np.column_stack((servers, stage)), axis=0, return_inverse=True)[1].ravel()
    others = np.where(joins, np.bincount(beside, ~joins)[beside], 0).astype(np.int64)
    return np.unique(np.column_stack((stage, others)), axis=0, return_inverse=True)[1].ravel()


def with_durations(
    nodes: Nodes, role: Ints, first_of_epoch: Ints, tolerance_ns: float
) -> StepGraph:
    """Learn parents and durations.

    ``role`` is that of each rank, and ``tolerance_ns`` by how much times may be wrong.
    """
    shape = nodes.join.shape
    compute, parent = np.full(shape, np.nan), np.full(shape, NONE, np.int32)
    after_join: Bools = np.zeros(shape, np.bool_)
    position, places = np.full(shape[0], -1), _places(nodes)
    for own in _alike(nodes, role):
        join, arrive = _side_by_side(nodes.join[own]), _side_by_side(nodes.arrive[own])
        before = [_step_before(nodes.join[one], nodes.arrive[one], first_of_epoch) for one in own]
        opening = np.fmin.reduce(join, axis=0)
        joins, join_at = _in_order(join - opening)
        arrivals, arrive_at = _in_order(arrive - opening)
        position[own[:, joins]] = np.arange(joins.size)
        found, which = np.full(join.shape, np.nan), np.full(join.shape, NONE, np.int32)
        of_join: Bools = np.zeros(join.shape, np.bool_)
        _learn(
            (joins, arrivals), (join_at, arrive_at), (join, arrive), places[own[0]],
            np.concatenate(before), len(own), tolerance_ns, (found, which, of_join),
        )  # fmt: skip
        for one, columns in zip(own, np.split(np.arange(join.shape[1]), len(own)), strict=True):
            compute[one], after_join[one] = found[:, columns], of_join[:, columns]
            at = which[:, columns]
            parent[one] = np.where(at >= 0, one[np.maximum(at, 0)], at)
    transfer = nodes.end - nodes.begin
    return StepGraph(nodes, compute, parent, after_join, transfer, position)


def hold_waiting(nodes: Nodes) -> Bools:
    """Which computations hold waiting for unknown messages, shape (participations,).

    They end with the last join of a record of several messages, while its rank receives others.
    Such a record is two operations without an end.
    """
    found: Bools = np.zeros(nodes.rank.size, np.bool_)
    known = np.isfinite(nodes.end).sum(axis=1)
    ends = np.flatnonzero(known[nodes.operation] == 0)
    order = ends[np.lexsort((nodes.operation[ends], nodes.rank[ends]))]
    of = np.column_stack((nodes.rank, nodes.communicator[nodes.operation]))[order]
    pairs = np.flatnonzero((of[1:] == of[:-1]).all(axis=1))
    first, last = order[pairs], order[pairs + 1]
    sent = np.isfinite(nodes.join[last]).sum(axis=1)
    for node in last[sent > 0].tolist():
        other = np.flatnonzero((sent == 0) & (nodes.rank[first] == nodes.rank[node]))
        join = nodes.join[node]
        within = (nodes.arrive[first[other]] < join) & (join < nodes.arrive[last[other]])
        both = np.isfinite(nodes.arrive[last[other]] + join)
        found[node] = bool((2 * within.sum(axis=1) > both.sum(axis=1)).any())
    return found


def _places(nodes: Nodes) -> Ints:
    """Number of the message of each participation, and messages of its lane; 0 for collectives."""
    first, count = np.unique(nodes.communicator, return_index=True, return_counts=True)[1:]
    of = nodes.communicator[nodes.operation]
    number = nodes.operation - first[of]
    return np.where(nodes.are_messages[nodes.operation], (number, count[of]), 0).T


def _alike(nodes: Nodes, role: Ints) -> Iterator[Ints]:
    """Participations of ranks with one role that do the same, shape (ranks, participations)."""
    kinds = np.unique([one.kind for one in nodes.communicators], return_inverse=True)[1]
    does = np.isfinite(nodes.join).any(axis=1), np.isfinite(nodes.arrive).any(axis=1)
    roles, least, most = int(role.max()) + 1, *_partners(nodes, role)
    what = (kinds[nodes.communicator[nodes.operation]] * 2 + does[0]) * 2 + does[1]
    number = np.unique((what * roles + least) * roles + most, return_inverse=True)[1]
    order = np.lexsort((nodes.operation, number, nodes.rank))
    alike: dict[tuple[int, bytes], list[Ints]] = {}
    for own in np.split(order, np.flatnonzero(np.diff(nodes.rank[order])) + 1):
        alike.setdefault((int(role[nodes.rank[own[0]]]), number[own].tobytes()), []).append(own)
    for members in alike.values():
        yield np.array(members)


def _partners(nodes: Nodes, role: Ints) -> tuple[Ints, Ints]:
    """Least and greatest role of those who take part in the same operation, by participation."""
    least, most = np.full(len(nodes.begin), role.max()), np.full(len(nodes.begin), role.min())
    np.minimum.at(least, nodes.operation, role[nodes.rank])
    np.maximum.at(most, nodes.operation, role[nodes.rank])
    return least[nodes.operation], most[nodes.operation]


def _side_by_side(times: Floats) -> Floats:
    """Steps of all ranks as those of one, (ranks, rows, steps) to (rows, ranks * steps)."""
    return times.swapaxes(0, 1).reshape(times.shape[1], -1)


def _step_before(join: Floats, arrive: Floats, first_of_epoch: Ints) -> Floats:
    """When the last thing happened at a rank in the step before; NaN in the first step.

    And where what usually is the last thing is not known.
    """
    times = np.concatenate((join, arrive))
    last = np.fmax.reduce(times, axis=0)
    known = np.flatnonzero(np.isfinite(last))
    if known.size:
        usual = np.bincount(np.nanargmax(times[:, known], axis=0)).argmax()
        last = np.where(np.isfinite(times[usual]), last, np.nan)
    before = np.full(last.size, np.nan)
    before[1:] = last[:-1]
    before[first_of_epoch] = np.nan
    return before


def _in_order(since: Floats) -> tuple[Ints, Floats]:
    """Rows that are known in some step, in order of their median time, and these times."""
    known = np.flatnonzero(np.isfinite(since).any(axis=1))
    middle = nanmedian(since[known], axis=1)
    order = np.argsort(middle, kind="stable")
    return known[order], middle[order]


@compiled
def _learn(
    order: tuple[Ints, Ints], middle: tuple[Floats, Floats], times: tuple[Floats, Floats],
    places: Ints, before: Floats, ranks: int, tolerance_ns: float,
    found: tuple[Floats, Codes, Bools],
) -> None:  # fmt: skip
    """Write the duration and the parent of each join of ``ranks`` that do the same."""
    joins, arrivals = order
    join, arrive = times
    compute, parent, after_join = found
    steps = join.shape[1]
    latest_ns, best = np.empty(steps), np.empty(steps, np.int64)
    tried = np.empty(NEAREST + OWN_JOINS + 1, np.int64)
    of_join = np.empty(NEAREST + OWN_JOINS + 1, np.bool_)
    wins = np.empty(NEAREST + OWN_JOINS + 1, np.int64)
    for number in range(joins.size):
        node = joins[number]
        count, near = 0, 0
        until = np.searchsorted(middle[1], middle[0][number] + tolerance_ns, side="right")
        for at in range(until - 1, -1, -1):
            one = arrivals[at]
            if one == node or _comes_later(one, node, places, arrive, join, ranks, tolerance_ns):
                continue
            if _precedes(arrive[one], join[node], ranks, tolerance_ns):
                tried[count], of_join[count] = one, False
                count += 1
            near += 1
            if near == NEAREST:
                break
        for at in range(max(0, number - OWN_JOINS), number):
            if _precedes(join[joins[at]], join[node], ranks, tolerance_ns):
                tried[count], of_join[count] = joins[at], True
                count += 1
        if _precedes(before, join[node], ranks, tolerance_ns):
            tried[count], of_join[count] = STEP_BEFORE, False
            count += 1
        if count == 0:
            continue
        latest_ns[:], best[:], wins[:count] = -np.inf, -1, 0
        for i in range(count):
            happened_ns = _times(tried[i], of_join[i], join, arrive, before)
            for step in range(steps):
                if happened_ns[step] > latest_ns[step]:
                    latest_ns[step], best[step] = happened_ns[step], i
        for step in range(steps):
            if best[step] >= 0 and np.isfinite(join[node, step]):
                wins[best[step]] += 1
                compute[node, step] = max(join[node, step] - latest_ns[step], 0.0)
                parent[node, step] = tried[best[step]]
                after_join[node, step] = of_join[best[step]]
        usual = np.argmax(wins[:count])
        happened_ns = _times(tried[usual], of_join[usual], join, arrive, before)
        for step in range(steps):
            if np.isnan(happened_ns[step]):
                compute[node, step] = np.nan  # what it usually waits for last is not known


@compiled
def _comes_later(
    one: int, node: int, places: Ints, arrive: Floats, join: Floats, ranks: int, tolerance_ns: float
) -> bool:
    """Whether an arrival has a larger number than a message, and the lane does not wait for all."""
    if places[one, 1] != places[node, 1] or places[one, 0] <= places[node, 0]:
        return False
    last = one + places[one, 1] - 1 - places[one, 0]
    first = node - places[node, 0]
    return not _precedes(arrive[last], join[first], ranks, tolerance_ns)


@compiled
def _times(node: int, of_join: bool, join: Floats, arrive: Floats, before: Floats) -> Floats:
    """When a parent happened in each step [ns]."""
    if node == STEP_BEFORE:
        return before
    happened_ns: Floats = join[node] if of_join else arrive[node]
    return happened_ns


@compiled
def _precedes(parent: Floats, child: Floats, ranks: int, tolerance_ns: float) -> bool:
    """Whether ``parent`` comes before ``child`` in nearly all steps in which both are known.

    And so at each of the ranks.
    """
    most, steps = 0, child.size // ranks
    for first in range(0, child.size, steps):
        known, late = 0, 0
        for step in range(first, first + steps):
            if np.isfinite(parent[step]) and np.isfinite(child[step]):
                known += 1
                late += parent[step] > child[step] + tolerance_ns
        if late > VIOLATIONS * known:
            return False
        most = max(most, known)
    return most >= 2
