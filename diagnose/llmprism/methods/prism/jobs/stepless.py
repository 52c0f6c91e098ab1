"""Jobs without a timeline: who trains with whom, and nothing more.

Records longer than a step (long active or idle timeouts) and heavy sampling hide the steps.
What circulates still shows who communicates: the strongly connected components of the data-
carrying connections, joined where they use the same servers (tensor parallelism joins them
out of sight). Volumes show the kinds of some pairs
(:mod:`~llmprism.methods.prism.records.shapes`); the others and the layout are unknown.

Where other jobs do have steps, a component without any is more likely to be that of a service.
It is a job only if its traffic is *repeated*: the members of a group send each other equal
volumes, so almost all bytes are on connections whose volume another one has as well.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.prism.classes.circles import circles
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.jobs.counted_periods import CountedPeriod, counted_period
from llmprism.methods.prism.jobs.resolution import Refusal
from llmprism.methods.prism.jobs.silent import silent_of
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Ints

CONFIDENCE = 0.5  # two jobs on the same servers look like one
REPEATED = 0.9  # share of bytes on connections whose volume another connection has
SAME_VOLUME = 0.02  # of the volume of a connection: difference that counts as none
NO_STEPS = Refusal(
    "no division of the traffic into equal steps: records may be longer than a step",
    "an idle timeout of a twentieth of a step, and no sampling",
)


@dataclass(frozen=True)
class Stepless:
    """A job without a timeline: its endpoint codes, sorted, why, and its period if that shows."""

    endpoints: Codes
    refusal: Refusal
    period: CountedPeriod | None = None


def find_stepless(
    flows: FlowTable, connections: Connections, topology: Topology, taken: Codes, alone: bool
) -> list[Stepless]:
    """Jobs among the endpoints that are not ``taken``, in order of the first record.

    ``alone``: whether there is no other job.
    """
    free = ~(np.isin(connections.src, taken) | np.isin(connections.dst, taken))
    own = np.flatnonzero(connections.carries & free)
    joined: dict[frozenset[int], set[int]] = {}
    for inside in circles(flows, connections, own):
        if not alone and _repeated(connections.total_bytes[inside]) < REPEATED:
            continue
        ends = {*connections.src[inside].tolist(), *connections.dst[inside].tolist()}
        homes = frozenset(topology.servers[sorted(ends)].tolist())
        joined.setdefault(homes, set()).update(ends)
    return [Stepless(np.array(sorted(ends), np.int32), NO_STEPS) for ends in joined.values()]


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


def with_silent(
    jobs: Sequence[Job | Stepless], topology: Topology, flows: FlowTable
) -> list[Job | Stepless]:
    """``jobs`` of which those without a timeline have their NICs at a leaf that exports nothing."""
    silent = silent_of([one.endpoints for one in jobs], topology, flows.senders)
    return [
        replace(one, endpoints=np.union1d(one.endpoints, unseen).astype(np.int32))
        if isinstance(one, Stepless)
        else one
        for one, unseen in zip(jobs, silent, strict=True)
    ]


def with_periods(
    flows: FlowTable, connections: Connections, jobs: Sequence[Job | Stepless]
) -> list[Job | Stepless]:
    """``jobs`` of which those without a timeline have their period where records count steps."""
    return [
        replace(one, period=counted_period(flows, connections, one.endpoints))
        if isinstance(one, Stepless)
        else one
        for one in jobs
    ]


def _repeated(volumes: Ints) -> float:
    """Share of bytes on connections whose volume another connection has as well."""
    ordered = np.sort(volumes).astype(np.float64)
    close = np.diff(ordered) <= SAME_VOLUME * ordered[1:]
    twin = np.zeros(ordered.size, np.bool_)
    twin[1:] |= close
    twin[:-1] |= close
    return float(ordered[twin].sum() / max(ordered.sum(), 1.0))


def layout_row(name: str, one: Stepless) -> pd.DataFrame:
    """The row of ``layouts`` of a job without a timeline."""
    evidence = {"refused": one.refusal.reason, "would_allow": one.refusal.setting}
    period_ns = -1
    if one.period is not None:
        period_ns = one.period.period_ns
        evidence["period"] = (
            f"{one.period.records} records of {one.period.connections} connections end in"
            " silences, after multiples of the same bytes"
        )
    row = {
        **dict.fromkeys(("dp", "pp", "tp", "ep", "cp", "micro_batches"), -1),
        **dict.fromkeys(("schedule", "sharding"), "unknown"),
        "period_ns": period_ns,
        "confidence": CONFIDENCE,
        "evidence": json.dumps(evidence, sort_keys=True),
    }
    return pd.DataFrame([{"job": name, **row}])
