"""The method ``prism``: steps are what repeats, jobs are what circulates.

Its stages, each in a package of its own: records, which become connections that carry data or do
not; cycles, which divide the traffic of a class into equal parts; classes of connections that
behave alike; steps, which decide which equal parts are training steps; kinds of traffic; jobs,
whose components take their steps together; phases, pipelines and the timeline of every rank;
layout; tables; and findings, which explain slow steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from llmprism.io.clock import clock_tick_ns
from llmprism.io.flows import FlowTable
from llmprism.io.parts import InParts
from llmprism.io.topology import Topology
from llmprism.job_names import contradictions, members_of
from llmprism.methods import register
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.findings import find_findings
from llmprism.methods.prism.jobs.accumulated import DOUBTED, REASON, may_be_accumulated
from llmprism.methods.prism.jobs.attempts import Job
from llmprism.methods.prism.jobs.jobs import find_jobs, find_parts
from llmprism.methods.prism.jobs.partial_steps import partial_steps
from llmprism.methods.prism.jobs.resolution import refusal
from llmprism.methods.prism.jobs.stepless import (
    Stepless,
    find_stepless,
    joined_by_servers,
    with_shown,
)
from llmprism.methods.prism.kinds.unseen import with_unseen
from llmprism.methods.prism.layout.layout import as_given, find_layout, of_packets
from llmprism.methods.prism.layout.replicas import (
    find_replicas,
    sharing_rings,
    whole_groups,
    with_common_ends,
)
from llmprism.methods.prism.layout.ring_sizes import find_ring_share
from llmprism.methods.prism.layout.stages_inside import with_stages_inside
from llmprism.methods.prism.phases.phases import Phases, find_phases
from llmprism.methods.prism.pipelines.pipelines import find_pipelines
from llmprism.methods.prism.records.connections import Connections, find_connections
from llmprism.methods.prism.records.joining import joining_pairs
from llmprism.methods.prism.records.sampled import are_single_packets
from llmprism.methods.prism.tables.by_job import tables_of
from llmprism.methods.prism.tables.pair_table import DiagnosedJob
from llmprism.methods.prism.tables.spans import Marked, SpanTable, marked
from llmprism.methods.prism.timeline.closings import find_closings
from llmprism.methods.prism.timeline.gathers import SHARDED, begun_by_gathers, with_late_gathers
from llmprism.methods.prism.timeline.hidden_hops import with_hidden_hops, with_wide_groups
from llmprism.methods.prism.timeline.later_stages import after_pauses
from llmprism.methods.prism.timeline.timeline import find_timeline
from llmprism.methods.prism.timeline.update_times import with_updates
from llmprism.numerics.arrays import Ints
from llmprism.numerics.independence import nothing_circulates
from llmprism.numerics.memory import give_back
from prism_common.progress import Progress


def phases_of(
    flows: FlowTable,
    topology: Topology,
    connections: Connections,
    job: Job,
    sizes: Mapping[str, int],
) -> Phases:
    """The phases of ``job``, with what runs inside servers.

    ``sizes``: places along each axis of the layout that is given.
    """
    phases = find_phases(flows, connections, job, sizes)
    phases = with_hidden_hops(flows, topology, connections, phases)
    return with_wide_groups(topology, connections, phases)


@dataclass(frozen=True)
class Prism:
    """The method, with the function that judges what the rest has measured."""

    findings: Callable[[Context], pd.DataFrame] = find_findings

    def __call__(
        self, flows: FlowTable, topology: Topology, progress: Progress
    ) -> Mapping[str, pd.DataFrame | InParts]:
        """Diagnose ``flows``; see :class:`~llmprism.methods.base.Method`."""
        tables, jobs = self._diagnosed(flows, topology, progress)
        give_back()
        if not jobs:
            return tables
        records = (flows.src, flows.dst, flows.start_ns, flows.end_ns)
        return {**tables, "spans": InParts(SpanTable(flows.addresses, records, jobs))}

    def _diagnosed(
        self, flows: FlowTable, topology: Topology, progress: Progress
    ) -> tuple[dict[str, pd.DataFrame], list[Marked]]:
        """All tables but the spans, and what those are made of; none if nothing circulates."""
        if nothing_circulates(flows.start_ns, flows.src, flows.dst, clock_tick_ns(flows.start_ns)):
            return {}, []
        progress(0.0, "finding connections")
        connections = with_unseen(topology, flows.senders, find_connections(flows))
        exchanged = (connections.src, connections.dst), connections.total_bytes
        member = members_of(topology, *flows.recorded_ns, *exchanged)
        src, dst = member[connections.src], member[connections.dst]
        crossing = (src != dst) & (src >= -1) & (dst >= -1)
        connections = replace(connections, light=connections.light | crossing)
        progress(0.2, "finding jobs and their steps")
        jobs = self._jobs_and_stepless(flows, topology, connections, member)
        give_back()
        found: list[DiagnosedJob] = []
        stepless: dict[str, Stepless] = {}
        for i in range(len(jobs)):
            one = jobs.pop(0)  # its classes are half of all memory; only those of the phases stay
            if isinstance(one, Stepless):
                stepless[f"job-{i}"] = one
                continue
            progress(0.5 + 0.4 * i / (i + 1 + len(jobs)), "reconstructing timelines")
            number = int(member[one.endpoints].max())
            sizes = topology.jobs[number].layout if number >= 0 else {}
            looked = self._look_into(flows, topology, connections, one, f"job-{i}", sizes)
            if number >= 0:
                odd = contradictions(topology, member, number, *exchanged)
                layout = as_given(looked.layout, sizes, odd, looked.phases.classes)
                looked = replace(looked, layout=layout)
            found.append(looked)
            del one
            give_back()
        progress(0.9, "looking for causes of slow steps")
        views = [
            JobView(one.name, one.phases, one.pipelines, one.ranks, one.dp_group) for one in found
        ]
        findings = self.findings(Context(flows, topology, connections, views))
        progress(0.95, "filling tables")
        found = [_with_updates(one) for one in found]
        tables = tables_of(topology, found, stepless, connections)
        jobs_marked = [marked(one.name, one.phases, one.ranks, len(flows)) for one in found]
        return tables | {"findings": findings}, jobs_marked

    def _jobs_and_stepless(
        self, flows: FlowTable, topology: Topology, connections: Connections, member: Ints
    ) -> list[Job | Stepless]:
        """Jobs with steps first, then those whose records do not show steps."""
        jobs: list[Job | Stepless] = []
        partial: list[Stepless] = []
        parts = find_parts(flows, connections)
        for job in find_jobs(flows, topology, connections, parts, member):
            refused = refusal(flows, connections, job)
            if refused is None and (hint := partial_steps(connections, job, len(flows.addresses))):
                partial.append(Stepless(job.endpoints, hint))
            else:
                jobs.append(Stepless(job.endpoints, refused) if refused else job)
        taken = np.concatenate([np.empty(0, np.int32), *(one.endpoints for one in jobs)])
        alone = not (jobs or partial or (flows.rest and flows.rest.have_steps))
        others = find_stepless(flows, connections, taken, partial, alone=alone)
        jobs += joined_by_servers(others, topology)
        return with_shown(flows, connections, jobs)

    def _look_into(
        self,
        flows: FlowTable,
        topology: Topology,
        connections: Connections,
        job: Job,
        name: str,
        sizes: Mapping[str, int],
    ) -> DiagnosedJob:
        """Work out kinds, pipelines, timeline and layout of one job."""
        phases = phases_of(flows, topology, connections, job, sizes)
        pipelines = find_pipelines(flows, connections, phases)
        phases = with_late_gathers(flows, connections, phases, pipelines)
        replicas = find_replicas(topology, phases, pipelines, connections.sample_bytes)
        divided = with_stages_inside(topology, connections, phases, pipelines)
        share = find_ring_share(topology, connections, phases, divided)
        joining = replicas
        if not replicas and share and share.ranks == share.rings:
            joining = sharing_rings(topology, phases, pipelines)
        groups = whole_groups(topology, phases, joining)
        closings = find_closings(flows, connections, phases)
        ranks = find_timeline(with_common_ends(topology, phases, groups), pipelines, closings)
        layout = find_layout(topology, connections, phases, divided, replicas, share)
        steps_sure = min(phases.quality, layout.confidence if layout.pp < 0 else 1.0)
        if pipelines.length == 1 and may_be_accumulated(connections, job, topology.lone):
            steps_sure = min(steps_sure, DOUBTED)
            layout = replace(layout, evidence={**layout.evidence, "steps_doubted": REASON})
        ranks = with_updates(connections, phases, pipelines, ranks, layout.dp)
        ranks = after_pauses(flows, phases, pipelines, ranks)
        layout = of_packets(layout) if are_single_packets(flows) else layout
        return DiagnosedJob(name, phases, divided, ranks, layout, groups, steps_sure)


def _with_updates(one: DiagnosedJob) -> DiagnosedJob:
    """``one`` with steps that include their update where the next step shows its end."""
    if one.layout.pp > 1 or one.layout.sharding not in SHARDED:
        return one
    return replace(one, ranks=begun_by_gathers(one.ranks, one.phases))


prism = register("prism", joining_pairs)(Prism())
