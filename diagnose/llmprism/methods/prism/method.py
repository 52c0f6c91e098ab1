"""The method ``prism``: steps are what repeats, jobs are what circulates.

Its stages, each in a package of its own: records, which become connections that carry data or do
not; cycles, which divide the traffic of a class into equal parts; classes of connections that
behave alike; steps, which decide which equal parts are training steps; kinds of traffic; jobs,
whose components take their steps together; phases, pipelines and the timeline of every rank;
layout; tables; and findings, which explain slow steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from llmprism.io.clock import clock_tick_ns
from llmprism.io.flows import FlowTable
from llmprism.io.parts import InParts
from llmprism.io.topology import Topology
from llmprism.methods import register
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.findings import find_findings
from llmprism.methods.prism.jobs.accumulated import DOUBTED, REASON, may_be_accumulated
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.jobs.jobs import find_jobs
from llmprism.methods.prism.jobs.partial_steps import partial_steps
from llmprism.methods.prism.jobs.resolution import refusal
from llmprism.methods.prism.jobs.silent import with_silent_places
from llmprism.methods.prism.jobs.stepless import (
    Stepless,
    find_stepless,
    joined_by_servers,
    with_shown,
    with_silent,
)
from llmprism.methods.prism.kinds.unseen import with_unseen
from llmprism.methods.prism.layout.inside_servers import UNKNOWN
from llmprism.methods.prism.layout.layout import find_layout, of_packets
from llmprism.methods.prism.layout.replicas import (
    find_replicas,
    sharing_rings,
    whole_groups,
    with_common_ends,
    with_unseen_ends,
)
from llmprism.methods.prism.layout.ring_sizes import find_ring_share
from llmprism.methods.prism.phases.phases import find_phases
from llmprism.methods.prism.pipelines.pipelines import find_pipelines
from llmprism.methods.prism.records.connections import Connections, find_connections
from llmprism.methods.prism.records.joining import joining_pairs
from llmprism.methods.prism.records.sampled import are_single_packets
from llmprism.methods.prism.tables.ended import ended_steps
from llmprism.methods.prism.tables.found import Found
from llmprism.methods.prism.tables.pair_table import pairs_of
from llmprism.methods.prism.tables.spans import Marked, SpanTable, marked
from llmprism.methods.prism.tables.without_steps import groups_of, layout_of
from llmprism.methods.prism.timeline.closings import find_closings
from llmprism.methods.prism.timeline.first_gathers import with_first_gathers
from llmprism.methods.prism.timeline.gathered_steps import SHARDED, begun_by_gathers
from llmprism.methods.prism.timeline.gathers import with_late_gathers
from llmprism.methods.prism.timeline.gathers_before import with_gathers_before
from llmprism.methods.prism.timeline.hidden_hops import with_hidden_hops
from llmprism.methods.prism.timeline.later_stages import after_pauses
from llmprism.methods.prism.timeline.timeline import find_timeline
from llmprism.methods.prism.timeline.update_times import Sharing, with_updates
from llmprism.methods.prism.timeline.wide_groups import with_wide_groups
from llmprism.model import Progress
from llmprism.numerics.arrays import Codes
from llmprism.numerics.independence import nothing_circulates
from llmprism.numerics.memory import give_back


@register("prism", joining_pairs)
def prism(
    flows: FlowTable, topology: Topology, progress: Progress
) -> Mapping[str, pd.DataFrame | InParts]:
    """Diagnose ``flows``; see :class:`~llmprism.methods.base.Method`."""
    tables, jobs = _diagnosed(flows, topology, progress)
    give_back()
    if not jobs:
        return tables
    records = (flows.src, flows.dst, flows.start_ns, flows.end_ns)
    return {**tables, "spans": InParts(SpanTable(flows.addresses, records, jobs))}


def _diagnosed(
    flows: FlowTable,
    topology: Topology,
    progress: Progress,
) -> tuple[dict[str, pd.DataFrame], list[Marked]]:
    """All tables but the spans, and what those are made of; none if nothing circulates."""
    if nothing_circulates(flows.start_ns, flows.src, flows.dst, clock_tick_ns(flows.start_ns)):
        return {}, []
    progress(0.0, "finding connections")
    connections = with_unseen(topology, flows.senders, find_connections(flows))
    progress(0.2, "finding jobs and their steps")
    jobs = _jobs_and_stepless(flows, topology, connections)
    give_back()
    found: list[Found] = []
    stepless: dict[str, Stepless] = {}
    for i in range(len(jobs)):
        one = jobs.pop(0)  # its classes are half of all memory; only those of the phases stay
        if isinstance(one, Stepless):
            stepless[f"job-{i}"] = one
            continue
        progress(0.5 + 0.4 * i / (i + 1 + len(jobs)), "reconstructing timelines")
        found.append(_look_into(flows, topology, connections, one, f"job-{i}"))
        del one
        give_back()
    progress(0.9, "looking for causes of slow steps")
    views = [JobView(one.name, one.phases, one.pipelines, one.ranks, one.dp_group) for one in found]
    findings = find_findings(Context(flows, topology, connections, views))
    progress(0.95, "filling tables")
    found = [_with_updates(one) for one in found]
    tables = _tables(topology, found, stepless, connections)
    jobs_marked = [marked(one.name, one.phases, one.ranks, len(flows)) for one in found]
    return tables | {"findings": findings}, jobs_marked


def _jobs_and_stepless(
    flows: FlowTable, topology: Topology, connections: Connections
) -> list[Job | Stepless]:
    """Jobs with steps first, then those whose records do not show steps."""
    jobs: list[Job | Stepless] = []
    partial: list[Stepless] = []
    for job in find_jobs(flows, topology, connections):
        refused = refusal(flows, connections, job)
        if refused is None and (hint := partial_steps(connections, job, len(flows.addresses))):
            partial.append(Stepless(job.endpoints, hint))
        else:
            jobs.append(Stepless(job.endpoints, refused) if refused else job)
    taken = np.concatenate([np.empty(0, np.int32), *(one.endpoints for one in jobs)])
    alone = not (jobs or partial or (flows.rest and flows.rest.have_steps))
    others = find_stepless(flows, connections, taken, partial, alone=alone)
    jobs += joined_by_servers(others, topology)
    return with_shown(flows, connections, with_silent(jobs, topology, flows))


def _with_updates(one: Found) -> Found:
    """``one`` with steps that include their update where the next step shows its end."""
    if one.layout.pp > 1 or one.layout.sharding not in SHARDED:
        return one
    return replace(one, ranks=begun_by_gathers(one.ranks, one.phases))


def _tables(
    topology: Topology,
    found: list[Found],
    stepless: Mapping[str, Stepless],
    connections: Connections,
) -> dict[str, pd.DataFrame]:
    """The tables ``jobs``, ``groups``, ``steps``, ``layouts`` and ``pairs``."""
    names = np.array(topology.addresses, dtype=object)
    tables = {
        "jobs": [
            *(
                _jobs(one.name, one.phases.endpoints, names, one.pipelines.micro_batches)
                for one in found
            ),
            *(_jobs(name, one.endpoints, names, UNKNOWN) for name, one in stepless.items()),
        ],
        "groups": [
            *(_groups(topology, one, names) for one in found),
            *(groups_of(name, one, names) for name, one in stepless.items()),
        ],
        "steps": [_steps(connections, one, names) for one in found],
        "layouts": [
            *(_layout(one) for one in found),
            *(layout_of(name, one) for name, one in stepless.items()),
        ],
    }
    pairs = pairs_of(topology, found, stepless, connections, names)
    return {name: _joined(own) for name, own in tables.items() if own} | {"pairs": pairs}


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def _look_into(
    flows: FlowTable, topology: Topology, connections: Connections, job: Job, name: str
) -> Found:
    """Work out kinds, pipelines, timeline and layout of one job."""
    phases = find_phases(flows, connections, job)
    phases = with_hidden_hops(flows, topology, connections, phases)
    phases = with_wide_groups(topology, connections, phases)
    pipelines = find_pipelines(flows, connections, phases)
    phases = with_first_gathers(flows, connections, phases, pipelines)
    if phases.gathers is None:
        phases = with_gathers_before(flows, connections, phases, pipelines)
        phases = with_late_gathers(flows, connections, phases, pipelines)
    replicas = find_replicas(topology, phases, pipelines, connections.sample_bytes)
    share = find_ring_share(topology, connections, phases, pipelines)
    joining = replicas
    if not replicas and share and share.ranks == share.rings:
        joining = sharing_rings(topology, phases, pipelines)
    groups = whole_groups(topology, phases, joining)
    closings = find_closings(flows, connections, phases)
    ended = with_unseen_ends(topology, phases, pipelines.stage)
    ranks = find_timeline(with_common_ends(topology, ended, groups), pipelines, closings)
    layout = find_layout(topology, connections, phases, pipelines, replicas, share)
    steps_sure = min(phases.quality, layout.confidence if layout.pp < 0 else 1.0)
    if pipelines.length == 1 and may_be_accumulated(connections, job, topology.lone):
        steps_sure = min(steps_sure, DOUBTED)
        layout = replace(layout, evidence={**layout.evidence, "steps_doubted": REASON})
    sharing = Sharing(layout.dp, layout.sharding)
    ranks = with_updates(connections, phases, pipelines, ranks, sharing)
    ranks = after_pauses(flows, phases, pipelines, ranks)
    layout = of_packets(layout) if are_single_packets(flows) else layout
    return Found(name, phases, pipelines, ranks, layout, groups, steps_sure)


def _jobs(name: str, endpoints: Codes, names: Any, micro_batches: int) -> pd.DataFrame:
    frame = pd.DataFrame({"job": name, "address": names[endpoints]})
    return frame.assign(micro_batches=micro_batches)


def _groups(topology: Topology, one: Found, names: Any) -> pd.DataFrame:
    """Rows of the table ``groups`` for one job."""
    ends = names[one.phases.endpoints]
    unseen = (one.dp_group < 0) & (one.pipelines.number < 0)
    frames = []
    for kind, number, position in (
        ("dp", one.dp_group, np.full(ends.size, -1)),
        ("pp", one.pipelines.number, one.pipelines.stage),
    ):
        number, position = with_silent_places(
            topology, one.phases.endpoints, unseen, number, position
        )
        frame = pd.DataFrame({"group": number, "address": ends, "position": position})
        frame = frame[frame["group"] >= 0].assign(job=one.name, kind=kind)
        frames.append(frame.sort_values(["group", "position", "address"]))
    both = pd.concat(frames, ignore_index=True)
    return both.assign(position=both["position"].astype("Int64").mask(both["position"] < 0))


def _steps(connections: Connections, one: Found, names: Any) -> pd.DataFrame:
    """Rows of the table ``steps`` for one job: those that were ended."""
    ranks = one.ranks
    ends, count = ranks.end.shape
    whole = {
        name: np.rint(np.nan_to_num(values)).astype(np.int64).ravel() + ranks.origin_ns
        for name, values in (("start_ns", ranks.start), ("end_ns", ranks.end))
    }
    dp_end = np.rint(np.nan_to_num(ranks.dp_end)).ravel().astype(np.int64) + ranks.origin_ns
    known = ~np.isnan(ranks.dp_end).ravel()
    frame = pd.DataFrame(
        {
            "job": one.name,
            "address": np.repeat(names[one.phases.endpoints], count),
            "step": np.tile(np.arange(count), ends),
            **whole,
            "dp_end_ns": pd.Series(dp_end).astype("Int64").where(known),
            "confidence": one.steps_sure,
        }
    )
    return frame[ended_steps(connections, one).ravel()].reset_index(drop=True)


def _layout(one: Found) -> pd.DataFrame:
    """The row of the table ``layouts`` for one job."""
    layout = one.layout
    row = {
        **{name: getattr(layout, name) for name in ("dp", "pp", "tp", "ep", "cp")},
        "micro_batches": layout.micro_batches,
        "schedule": layout.schedule,
        "sharding": layout.sharding,
        "period_ns": layout.period_ns,
        "confidence": layout.confidence,
        "evidence": json.dumps(layout.evidence, sort_keys=True),
    }
    return pd.DataFrame([{"job": one.name, **row}])
