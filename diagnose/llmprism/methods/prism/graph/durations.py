"""What each node waited for, learned from all steps, and how long the edges last.

A rank waits for messages, for collectives and for its own work. What it waits for before it joins
an operation is not known; but the order within a step is the same in every step. So its *parents*
are the arrivals and own joins that have come before it in all steps, and the latest of them in a
step is what it waited for. Computation is the time from there to the join. A parent that was not
needed makes a duration seem shorter in all steps alike.

A stage of a pipeline passes messages on in the order in which it gets them. So the message of some
number waits for none that has a larger number, unless its lane begins when all have arrived.

The step before is a parent too: the last thing that happened at the rank in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.graph.nodes import Nodes
from llmprism.methods.prism.parameters import NEAREST, VIOLATIONS
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.compiled import compiled
from llmprism.numerics.missing import nanmedian

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
    parent: Ints
    after_join: Bools
    transfer: Floats
    position: Ints


def with_durations(nodes: Nodes, first_of_epoch: Ints, tolerance_ns: float) -> StepGraph:
    """Learn parents and durations; ``tolerance_ns`` is by how much times may be wrong."""
    shape = nodes.join.shape
    compute, parent = np.full(shape, np.nan), np.full(shape, NONE, np.int64)
    after_join: Bools = np.zeros(shape, np.bool_)
    position, places = np.full(shape[0], -1), _places(nodes)
    by_rank = np.argsort(nodes.rank, kind="stable")
    for own in np.split(by_rank, np.flatnonzero(np.diff(nodes.rank[by_rank])) + 1):
        join, arrive = nodes.join[own], nodes.arrive[own]
        before = _step_before(join, arrive, first_of_epoch)
        opening = np.fmin.reduce(join, axis=0)
        joins, join_at = _in_order(join - opening)
        arrivals, arrive_at = _in_order(arrive - opening)
        position[own[joins]] = np.arange(joins.size)
        found, which, of_join = (
            np.full(join.shape, np.nan),
            np.full(join.shape, NONE),
            after_join[own],
        )
        _learn(
            (joins, arrivals), (join_at, arrive_at), (join, arrive), places[own], before,
            tolerance_ns, (found, which, of_join),
        )  # fmt: skip
        compute[own], after_join[own] = found, of_join
        parent[own] = np.where(which >= 0, own[np.maximum(which, 0)], which)
    return StepGraph(nodes, compute, parent, after_join, nodes.end - nodes.begin, position)


def _places(nodes: Nodes) -> Ints:
    """Number of the message of each participation, and messages of its lane; 0 for collectives."""
    first, count = np.unique(nodes.communicator, return_index=True, return_counts=True)[1:]
    of = nodes.communicator[nodes.operation]
    passes = np.array([one.kind == "pp" for one in nodes.communicators])[of]
    number = nodes.operation - first[of]
    return np.where(passes, (number, count[of]), 0).T


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
    places: Ints, before: Floats, tolerance_ns: float, found: tuple[Floats, Ints, Bools],
) -> None:  # fmt: skip
    """Write the duration and the parent of each join of one rank."""
    joins, arrivals = order
    join, arrive = times
    compute, parent, after_join = found
    steps = join.shape[1]
    tried = np.empty(NEAREST + OWN_JOINS + 1, np.int64)
    of_join = np.empty(NEAREST + OWN_JOINS + 1, np.bool_)
    wins = np.empty(NEAREST + OWN_JOINS + 1, np.int64)
    for number in range(joins.size):
        node = joins[number]
        count, near = 0, 0
        until = np.searchsorted(middle[1], middle[0][number] + tolerance_ns, side="right")
        for at in range(until - 1, -1, -1):
            one = arrivals[at]
            if one == node or _comes_later(one, node, places, arrive, join, tolerance_ns):
                continue
            if _precedes(arrive[one], join[node], tolerance_ns):
                tried[count], of_join[count] = one, False
                count += 1
            near += 1
            if near == NEAREST:
                break
        for at in range(max(0, number - OWN_JOINS), number):
            if _precedes(join[joins[at]], join[node], tolerance_ns):
                tried[count], of_join[count] = joins[at], True
                count += 1
        if _precedes(before, join[node], tolerance_ns):
            tried[count], of_join[count] = STEP_BEFORE, False
            count += 1
        if count == 0:
            continue
        wins[:count] = 0
        for step in range(steps):
            latest = -np.inf
            best = -1
            for i in range(count):
                at_ns = _time(tried[i], of_join[i], join, arrive, before, step)
                if at_ns > latest:
                    latest, best = at_ns, i
            if best >= 0 and np.isfinite(join[node, step]):
                wins[best] += 1
                compute[node, step] = max(join[node, step] - latest, 0.0)
                parent[node, step], after_join[node, step] = tried[best], of_join[best]
        usual = np.argmax(wins[:count])
        for step in range(steps):
            if np.isnan(_time(tried[usual], of_join[usual], join, arrive, before, step)):
                compute[node, step] = np.nan  # what it usually waits for last is not known


@compiled
def _comes_later(
    one: int, node: int, places: Ints, arrive: Floats, join: Floats, tolerance_ns: float
) -> bool:
    """Whether an arrival has a larger number than a message, and the lane does not wait for all."""
    if places[one, 1] != places[node, 1] or places[one, 0] <= places[node, 0]:
        return False
    last = one + places[one, 1] - 1 - places[one, 0]
    first = node - places[node, 0]
    return not _precedes(arrive[last], join[first], tolerance_ns)


@compiled
def _time(
    node: int, of_join: bool, join: Floats, arrive: Floats, before: Floats, step: int
) -> float:
    """When a parent happened [ns]."""
    if node == STEP_BEFORE:
        at_ns: float = before[step]
    else:
        at_ns = join[node, step] if of_join else arrive[node, step]
    return at_ns


@compiled
def _precedes(parent: Floats, child: Floats, tolerance_ns: float) -> bool:
    """Whether ``parent`` comes before ``child`` in nearly all steps in which both are known."""
    known, late = 0, 0
    for step in range(child.size):
        if np.isfinite(parent[step]) and np.isfinite(child[step]):
            known += 1
            late += parent[step] > child[step] + tolerance_ns
    return known >= 2 and late <= VIOLATIONS * known
