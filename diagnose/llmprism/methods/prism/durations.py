"""The durations of one job: the only thing that findings are made from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.alike import habits, kinds_of
from llmprism.methods.prism.baseline import (
    Reference,
    Table,
    length_of_steps,
    step_effect,
    table_of,
    without_waiting,
)
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.graph.durations import StepGraph, roles_of, with_durations
from llmprism.methods.prism.graph.nodes import nodes_of
from llmprism.methods.prism.graph.path import PathTimes, times_on_path
from llmprism.methods.prism.graph.rendezvous import Rendezvous, rendezvous_of
from llmprism.methods.prism.graph.traffic import Traffic, traffic_of
from llmprism.methods.prism.parameters import TOGETHER, TOGETHER_NS
from llmprism.methods.prism.saving import saving_steps
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian

COMPUTE, TRANSFER, WORK = "compute", "transfer", "work"


@dataclass(frozen=True)
class Durations:
    """Durations of the edges of one job, and what they are compared with.

    Attributes
    ----------
    context, job : the job, and all others beside it.
    measured : its nodes and durations; ``graph`` is the same without waiting in collectives.
    rendezvous : what begins together.
    reference : the steps that show what is normal.
    compute : excess of each rank; ``transfer`` that of each communicator.
    on_path : time on the critical path.
    traffic : records of each connection.
    length_ns : of each step, NaN where it is not measured.
    explained_ns : what is explained of that.
    tick_ns : of the clock; 0 for a fine one.
    """

    context: Context
    job: JobView
    measured: StepGraph
    graph: StepGraph
    rendezvous: Rendezvous
    reference: Reference
    compute: Table
    transfer: Table
    on_path: PathTimes
    traffic: Traffic
    length_ns: Floats
    explained_ns: Floats
    tick_ns: float

    @cached_property
    def usual_ns(self) -> float:
        """Median length of a step [ns]."""
        known = self.length_ns[np.isfinite(self.length_ns)]
        return float(np.median(known)) if known.size else 0.0

    @property
    def left_ns(self) -> Floats:
        """Length of each step without what is explained [ns]."""
        return self.length_ns - self.explained_ns

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.length_ns.size

    @cached_property
    def common(self) -> Floats:
        """What all ranks have in common in each step, as a share, shape (steps,)."""
        return step_effect(self.compute.excess)

    @cached_property
    def servers(self) -> Ints:
        """Server of each rank, shape (ranks,)."""
        return self.context.topology.servers[self.job.phases.endpoints].astype(np.int64)

    def address(self, rank: int) -> str:
        """Address of a rank."""
        return self.context.topology.addresses[int(self.job.phases.endpoints[rank])]

    def server_name(self, server: int) -> str:
        """Name of a server, or of the NVLink domain that several servers share."""
        at = int(np.flatnonzero(self.servers == server)[0])
        return self.context.topology.endpoints[int(self.job.phases.endpoints[at])].home

    def compared_with(self, healthy: Bools) -> Durations:
        """The same, compared with some steps only: most others are slow."""
        return self.beside(replace(self.reference, healthy=healthy & self.reference.healthy))

    def only_beside(self, steps: Bools) -> Durations:
        """The same where some steps of one kind show what is normal in all."""
        return self.beside(Reference(np.zeros_like(self.reference.kind), steps))

    def with_normal(self, normal: Floats) -> Durations:
        """The same where ``normal`` durations of computations tell who waits for whom."""
        return self.beside(self.reference, normal)

    def beside(self, reference: Reference, normal: Floats | None = None) -> Durations:
        """The same compared with other steps."""
        every = (self.measured, self.rendezvous, self.traffic, reference, self.tick_ns, normal)
        return _measured(self.context, self.job, *every)

    def explained(self, table: str, rows: Ints, inside: Bools) -> Durations:
        """The same without the excess of some rows in some steps."""
        old = self.transfer if table == TRANSFER else self.compute
        excess = old.excess.copy()
        excess[np.ix_(rows, np.flatnonzero(inside))] = np.nan
        new = replace(old, excess=excess)
        return replace(self, transfer=new) if table == TRANSFER else replace(self, compute=new)

    def shortened(self, by_ns: Floats) -> Durations:
        """The same with steps of which more is explained."""
        return replace(self, explained_ns=self.explained_ns + by_ns)

    def lost_by(self, ranks: Ints, inside: Bools) -> Durations:
        """The same where ``ranks`` lost in some steps what they and others may have lost."""
        return replace(self, on_path=self.on_path.without(ranks, inside))

    def without(self, inside: Bools) -> Durations:
        """The same without the excess of everything in some steps: the program compiles in them."""
        blank = np.where(inside, np.nan, 0.0)
        compute, transfer = (
            replace(table, excess=table.excess + blank) for table in (self.compute, self.transfer)
        )
        return replace(self, compute=compute, transfer=transfer)


def durations_of(context: Context, job: JobView) -> Durations | None:
    """Measure ``job``; None if it has no traffic in steps."""
    nodes = nodes_of(context, job)
    if nodes is None or job.count < 2:
        return None
    tick = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    tick_ns = float(tick) if tick > 1 else 0.0
    servers = context.topology.servers[job.phases.endpoints].astype(np.int64)
    role = roles_of(nodes, job.pipelines.stage, servers)
    graph = with_durations(nodes, role, job.phases.first_of_epoch, tick_ns)
    together_ns = max(tick_ns, min(TOGETHER_NS, TOGETHER * job.period_ns))
    rendezvous = rendezvous_of(nodes, servers, together_ns)
    met = rendezvous.of[nodes.operation]
    graph.compute[graph.after_join & (met[graph.parent] == met[:, None])] = np.nan  # at once
    none, every = np.zeros(job.count, np.int64), np.ones(job.count, np.bool_)
    reference = Reference(kinds_of(context, job, none), every)
    traffic = traffic_of(context, job)
    durations = _measured(context, job, graph, rendezvous, traffic, reference, tick_ns)
    length_ns = np.where(saving_steps(context, job), np.nan, job.between_ends_ns)  # known kinds
    habit = habits(length_ns - _lost_alone_ns(durations))
    if not habit.any():
        return durations
    return durations.beside(Reference(kinds_of(context, job, habit), every))


def _lost_alone_ns(durations: Durations) -> Floats:
    """What a rank lost in each step that no peer of it did [ns]: this is no habit of the job.

    No more than the step is longer by.
    """
    table, role = durations.compute, durations.job.pipelines.stage
    longer = np.nan_to_num(table.excess) * table.normal_ns[:, None]
    alone = np.zeros(durations.steps)
    for rank in np.flatnonzero(table.normal_ns > 0).tolist():
        peers = (role == role[rank]) & (table.normal_ns > 0)
        peers[rank] = False
        if peers.any():
            beside = longer[rank] - np.median(longer[peers], axis=0)
            own = np.minimum(beside, durations.on_path.lost_ns(np.array([rank])))
            alone = np.maximum(alone, own)
    length = durations.job.between_ends_ns
    longer_ns = length - nanmedian(length[None], axis=1)[0]
    least: Floats = np.minimum(alone, np.maximum(longer_ns, 0.0))
    return least


def _measured(
    context: Context, job: JobView, measured: StepGraph, rendezvous: Rendezvous, traffic: Traffic,
    reference: Reference, tick_ns: float, normal: Floats | None = None,
) -> Durations:  # fmt: skip
    """Compare the durations of ``measured`` with those of the reference."""
    compute = reference.normal(measured.compute) if normal is None else normal
    without = without_waiting(measured, compute, rendezvous)
    without[measured.holds_waiting] = np.nan
    graph = replace(measured, compute=without)
    nodes, ranks = graph.nodes, job.phases.endpoints.size
    communicators = len(nodes.communicators)
    return Durations(
        context,
        job,
        measured,
        graph,
        rendezvous,
        reference,
        table_of(graph.compute, nodes.rank, ranks, reference, tick_ns),
        table_of(graph.transfer, nodes.communicator, communicators, reference, tick_ns),
        times_on_path(measured, (compute, reference.normal(measured.transfer)), ranks, rendezvous),
        traffic,
        length_of_steps(job, reference),
        np.zeros(job.count),
        tick_ns,
    )
