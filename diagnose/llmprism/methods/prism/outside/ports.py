"""NICs with several ports: leaves, and planes, that carry nothing while other ports carry more.

A connection uses one port of each of its NICs, and the queue pairs of a NIC are spread over all of
its ports. If a leaf is down, its NICs send and receive over their other ports: in some steps the
leaf carries nothing of a job that it carries a part of in others. Records name the leaf in their
paths, so it is seen, not inferred. If all leaves of a plane do so together, the plane is down.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.explanation import Explanation
from llmprism.numerics.arrays import Floats, Ints

SEEN = 0.9
EMPTY = 0.02  # of what a leaf carries in a usual step: what was under way when it failed
PARTLY = 0.95  # of it, in a step in which a leaf failed or was repaired
PORT_DOWN = "port_down"


def lost_ports(context: Context) -> Iterator[Explanation]:
    """Yield leaves and planes that carry nothing of a job in some of its steps."""
    if not any(len(leaves) > 1 for leaves in context.topology.leaves):
        return
    for job in context.jobs:
        yield from _of_job(context, job)


def _of_job(context: Context, job: JobView) -> Iterator[Explanation]:
    names, carried = _carried(context, job)
    planes = np.array([context.topology.planes.get(name, "") for name in names])
    seen = np.zeros(carried.shape, np.bool_)
    for plane in np.unique(planes[planes != ""]).tolist():
        rows = np.flatnonzero(planes == plane)
        for run in _runs(carried[rows].sum(axis=0)) if rows.size > 1 else ():
            seen[np.ix_(rows, run)] = True
            yield from _explained(context, job, [names[row] for row in rows], run, plane)
    for row, name in enumerate(names):
        for run in _runs(carried[row]):
            if not seen[row, run].any():
                yield from _explained(context, job, [name], run, str(planes[row]))
    of = [context.topology.leaves[end] for end in job.phases.endpoints.tolist()]
    for name in sorted({leaf for own in of if len(own) > 1 for leaf in own} - {*names}):
        plane = context.topology.planes.get(name, "")
        if plane in planes:  # others of this plane carry something
            yield from _explained(context, job, [name], np.arange(job.count), plane)


def _runs(carried: Floats) -> list[Ints]:
    """Runs of steps in which a leaf carries nothing, and those beside in which it carries less."""
    usual = np.median(carried)
    empty = np.flatnonzero(carried < EMPTY * usual)
    if not empty.size:
        return []
    runs = np.split(empty, np.flatnonzero(np.diff(empty) > 1) + 1)
    less = np.flatnonzero(carried < PARTLY * usual)
    return [np.intersect1d(np.arange(run[0] - 1, run[-1] + 2), less) for run in runs]


def _explained(
    context: Context, job: JobView, leaves: list[str], run: Ints, plane: str
) -> Iterator[Explanation]:
    """The explanation of a ``run`` of steps in which ``leaves`` of a plane carry nothing."""
    if not _others_carry(context, job, leaves):
        return
    cause, kind, names = "failed_leaf", "switch", [leaves[0], plane] if plane else leaves
    if len(leaves) > 1:
        cause, kind, names = "failed_plane", "plane", [plane]
    evidence = {"one_of": names, "leaves_that_carry_nothing": leaves, "or_causes": []}
    lost = 1 / max(map(len, context.topology.leaves))
    first, last = int(run[0]), int(run[-1])
    yield Explanation(
        job, "network", PORT_DOWN, cause, kind, names[0], first, last, lost, SEEN, evidence
    )


def _carried(context: Context, job: JobView) -> tuple[list[str], Floats]:
    """Leaves that the job uses, and the bytes that each carries in each step, shape (leaves, n)."""
    flows = context.flows
    own = np.isin(flows.src, job.phases.endpoints) & np.isin(flows.dst, job.phases.endpoints)
    rows = np.flatnonzero(own & (flows.path >= 0))
    ends = [path.split("|") for path in flows.paths]
    names = sorted({hop for path in ends for hop in (path[0], path[-1])} - {"?"})
    place = {name: row for row, name in enumerate(names)}
    of_path = np.array(
        [[place.get(path[0], -1), place.get(path[-1], -1)] for path in ends], np.int64
    )
    step = np.searchsorted(job.end_ns, flows.start_ns[rows])
    inside = step < job.count
    rows, step = rows[inside], step[inside]
    carried = np.zeros((len(names), job.count))
    for side in of_path[flows.path[rows]].T:
        known = side >= 0
        np.add.at(carried, (side[known], step[known]), flows.bytes[rows[known]])
    used = np.flatnonzero(carried.any(axis=1))
    return [names[row] for row in used.tolist()], carried[used]


def _others_carry(context: Context, job: JobView, leaves: list[str]) -> bool:
    """Whether every NIC of the job at one of ``leaves`` has a port at another leaf."""
    of = [set(context.topology.leaves[end]) for end in job.phases.endpoints.tolist()]
    here = [own for own in of if own & {*leaves}]
    return bool(here) and all(own - {*leaves} for own in here)
