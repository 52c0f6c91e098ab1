"""Jobs without a timeline: who trains with whom, and nothing more.

Records longer than a step (long active or idle timeouts) and heavy sampling hide the steps.
What circulates still shows who communicates: the strongly connected components of the data-
carrying connections, joined where they use the same servers (tensor parallelism joins them
out of sight). Volumes show the kinds of some pairs
(:mod:`~llmprism.methods.prism.records.shapes`), and messages that wait for answers show
pipelines; the others and the layout are unknown.

Where other jobs do have steps, a component without any is more likely to be that of a service.
It is a job only if its traffic is *repeated*: the members of a group send each other equal
volumes, so almost all bytes are on connections whose volume another one has as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.prism.classes.circles import circles, joined_circles
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.jobs.counted_periods import CountedPeriod, counted_period
from llmprism.methods.prism.jobs.resolution import Refusal
from llmprism.methods.prism.kinds.unanswered import Passes, passes_of
from llmprism.methods.prism.parameters import EQUAL, NEARLY
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.records.shapes import Line, lines_of, rings_since
from llmprism.numerics.arrays import Codes, Ints

CONFIDENCE = 0.5  # two jobs on the same servers look like one
NO_STEPS = Refusal(
    "no division of the traffic into equal steps: records may be longer than a step, or "
    "there may be only one or two steps",
    "a recording of several steps, an idle timeout of a twentieth of a step, and no sampling",
)


@dataclass(frozen=True)
class Stepless:
    """A job without a timeline.

    Attributes
    ----------
    endpoints : endpoint codes, sorted.
    refusal : why.
    period : of its steps, if that shows.
    passes : its pipelines, if single messages show them.
    lines : its rings, and the lines to which they are joined.
    """

    endpoints: Codes
    refusal: Refusal
    period: CountedPeriod | None = None
    passes: Passes | None = None
    lines: tuple[Line, ...] = ()

    @property
    def rings(self) -> list[tuple[int, ...]]:
        """Endpoints of each ring, in its order."""
        return [ring for line in self.lines for ring in line.rings]

    @property
    def chains(self) -> list[frozenset[int]]:
        """Endpoints of each pipeline."""
        if self.passes is not None:
            return list(self.passes.chains)
        return [chain for line in self.lines for chain in line.chains]


def find_stepless(
    flows: FlowTable,
    connections: Connections,
    taken: Codes,
    partial: Sequence[Stepless],
    alone: bool,
) -> list[Stepless]:
    """The ``partial`` jobs, then others among the endpoints that are not ``taken``.

    What some endpoints of a job do before or after all else belongs to it: in a single step,
    forward passes may end before any backward pass, and those before any gradients move. What
    never circulates, as what is written and read later, is no job. ``alone``: whether there is no
    other job.
    """
    free = ~(np.isin(connections.src, taken) | np.isin(connections.dst, taken))
    own = np.flatnonzero(connections.carries & free)
    jobs = list(partial)
    for inside in joined_circles(connections, own, len(flows.addresses)):
        repeated = alone or _repeated(connections.total_bytes[inside]) >= NEARLY
        if repeated and circles(flows, connections, inside):
            ends = np.unique((connections.src[inside], connections.dst[inside]))
            jobs = _with_one(jobs, Stepless(ends.astype(np.int32), NO_STEPS))
    return jobs


def _with_one(jobs: Sequence[Stepless], one: Stepless) -> list[Stepless]:
    """``jobs`` and another ``one``, joined with all that share endpoints with it."""
    shared = [i for i, job in enumerate(jobs) if np.isin(job.endpoints, one.endpoints).any()]
    if not shared:
        return [*jobs, one]
    ends = np.unique(np.concatenate([one.endpoints, *(jobs[i].endpoints for i in shared)]))
    whole = replace(jobs[shared[0]], endpoints=ends)
    rest = set(shared[1:])
    return [whole if i == shared[0] else job for i, job in enumerate(jobs) if i not in rest]


def joined_by_servers(jobs: Sequence[Stepless], topology: Topology) -> list[Stepless]:
    """``jobs`` with one for all that use the same servers, in the order of the first of them.

    Where the steps of a part are none, nothing shows that it is a job of its own.
    """
    joined: dict[frozenset[int], Stepless] = {}
    for job in jobs:
        homes = frozenset(topology.servers[job.endpoints].tolist())
        first = joined.get(homes)
        ends = job.endpoints if first is None else np.union1d(first.endpoints, job.endpoints)
        joined[homes] = Stepless(ends.astype(np.int32), (first or job).refusal)
    return list(joined.values())


def with_shown(
    flows: FlowTable, connections: Connections, jobs: Sequence[Job | Stepless]
) -> list[Job | Stepless]:
    """``jobs`` of which those without a timeline have what shows of them all the same.

    That is the period, where records count steps, and their pipelines and rings.
    """
    return [
        _with_shown(flows, connections, one) if isinstance(one, Stepless) else one for one in jobs
    ]


def _with_shown(flows: FlowTable, connections: Connections, job: Stepless) -> Stepless:
    """``job`` with what shows of it.

    Rings on which nothing moves before the first gradient of a pipeline reduce gradients. Those of
    tensor and context parallelism move in the first forward pass.
    """
    period = counted_period(flows, connections, job.endpoints)
    passes = passes_of(flows, connections, job.endpoints)
    if passes is None:
        lines = lines_of(connections, job.endpoints)
    else:
        lines = rings_since(connections, job.endpoints, passes.answered_ns)
    return replace(job, period=period, passes=passes, lines=tuple(lines))


def _repeated(volumes: Ints) -> float:
    """Share of bytes on connections whose volume another connection has as well."""
    ordered = np.sort(volumes).astype(np.float64)
    close = np.diff(ordered) <= EQUAL * ordered[1:]
    twin = np.zeros(ordered.size, np.bool_)
    twin[1:] |= close
    twin[:-1] |= close
    return float(ordered[twin].sum() / max(ordered.sum(), 1.0))
