"""The durations of one job: what units and transfers take in each step, beside normal steps.

A *unit* is a NIC of a job; it stands for the GPUs behind it. A gap between two events of a unit is
its own work if a send ends it, and waiting if an arrival does. So the own work of a unit in a step
is the sum, over all it sends, of the time since the latest arrival, or the end of its own send,
before it. Nothing is matched by number: a record that is lost joins two gaps, and shifts no other.

A collective is joined, not sent: a hop begins when both of its ends have joined. So a unit has
joined when the first of its lanes goes beyond all that is sent or under way, as a share of the
bytes of a step. Later lanes wait for others. A *lane* is what a unit sends to another in traffic of
one kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.alike import kinds_of, saving_steps
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.graph.durations import StepGraph, hold_waiting, roles_of, with_durations
from llmprism.methods.prism.graph.nodes import nodes_of
from llmprism.methods.prism.graph.path import PathTimes, times_on_path
from llmprism.methods.prism.graph.rendezvous import Rendezvous, rendezvous_of
from llmprism.methods.prism.graph.traffic import Traffic, traffic_of
from llmprism.methods.prism.normal import (
    Normal,
    Reference,
    Table,
    normal_of,
    periodic_steps,
    table_of,
    without_waiting,
)
from llmprism.methods.prism.parameters import (
    EQUAL,
    HALF,
    HEALTHY_DEVIATIONS,
    NOISE_FLOOR,
    OWN_WEIGHT,
    QUARTER,
    TOGETHER,
    TOGETHER_NS,
)
from llmprism.numerics.arrays import CODES, INTS, Bools, Codes, Floats, Ints
from llmprism.numerics.edges import Usual
from llmprism.numerics.missing import nanmedian, spread
from llmprism.numerics.own_work import add_own_work

TRAINING = ("dp", "pp", "ep", "cp", "tp")
MESSAGES = TRAINING.index("pp")  # traffic of all other kinds is parts of collectives


@dataclass(frozen=True)
class Lanes:
    """Units at both ends of each lane, -1 for those of other jobs, and the number of its kind."""

    source: Codes
    target: Codes
    kind: Codes


@dataclass(frozen=True)
class Transfers:
    """Records of a job in its steps, in no order.

    Attributes
    ----------
    start_ns, end_ns, size : of each record, [ns] and bytes.
    step, lane : of each record.
    lanes : what is sent on them.
    """

    start_ns: Ints
    end_ns: Ints
    size: Ints
    step: Codes
    lane: Codes
    lanes: Lanes


def transfers_of(context: Context, job: JobView) -> Transfers:
    """The records of all training traffic of ``job`` whose step is known."""
    connections = context.connections
    place = np.full(len(context.flows.addresses), -1)
    place[job.phases.endpoints] = np.arange(job.phases.endpoints.size)
    ends = np.stack((place[connections.src], place[connections.dst]))
    links, link = np.unique(ends, axis=1, return_inverse=True)
    first_lane = (link.ravel() * len(TRAINING)).astype(np.int32)
    columns: list[tuple[Ints | Codes, ...]] = [(INTS, INTS, INTS, CODES, CODES)]
    for part in job.phases.classes:
        if part.kind in TRAINING:
            known, traffic = np.flatnonzero(part.step >= 0), part.traffic
            lane = first_lane[connections.of_row[traffic.row[known]]] + TRAINING.index(part.kind)
            times = traffic.start_ns[known], traffic.end_ns[known]
            columns.append((*times, traffic.size[known], part.step[known], lane))
    start, end, size, step, lane = (np.concatenate(one) for one in zip(*columns, strict=True))
    source, target = np.repeat(links, len(TRAINING), axis=1).astype(np.int32)
    kind = np.tile(np.arange(len(TRAINING), dtype=np.int32), links.shape[1])
    codes = step.astype(np.int32), lane.astype(np.int32)
    return Transfers(start, end, size, *codes, Lanes(source, target, kind))


def own_work_ns(context: Context, job: JobView) -> Floats:
    """Own work of each unit in each step [ns], shape (units, steps); NaN where it has no events."""
    sent, units = transfers_of(context, job), job.phases.endpoints.size
    lanes = sent.lanes
    by_start, by_end = (np.argsort(one, kind="stable") for one in (sent.start_ns, sent.end_ns))
    own = np.zeros((units, job.count))
    has_events = add_own_work(
        (by_start.astype(np.int32), by_end.astype(np.int32)),
        (sent.start_ns, sent.end_ns, sent.size), (sent.step, sent.lane),
        (lanes.source, lanes.target, lanes.kind, lanes.kind == MESSAGES),
        (_usual_bytes(sent, job.count), EQUAL), own,
    )  # fmt: skip
    own[~has_events] = np.nan
    return own


def _usual_bytes(sent: Transfers, steps: int) -> Floats:
    """Bytes of each lane in a usual step in which it has any; NaN where it has none."""
    cell = sent.lane.astype(np.int64) * steps + sent.step
    total = np.bincount(cell, sent.size, sent.lanes.kind.size * steps).reshape(-1, steps)
    return nanmedian(np.where(total > 0, total, np.nan), axis=1)


@dataclass(frozen=True)
class Durations:
    """Durations of one job, and what they are compared with.

    Attributes
    ----------
    context, job : the job, and all others beside it.
    measured : its nodes and durations; ``graph`` is the same without waiting in collectives.
    rendezvous : what begins together.
    reference : the steps that show what is normal.
    normal : by what each step is longer than a normal one.
    work_ns : own work of each unit in each step, (units, steps); NaN where it has no events.
    compute : excess of each rank; ``transfer`` that of each communicator.
    on_path : time on the critical path.
    traffic : records of each connection.
    tick_ns : of the clock; 0 for a fine one.
    """

    context: Context
    job: JobView
    measured: StepGraph
    graph: StepGraph
    rendezvous: Rendezvous
    reference: Reference
    normal: Normal
    work_ns: Floats
    compute: Table
    transfer: Table
    on_path: PathTimes
    traffic: Traffic
    tick_ns: float

    @cached_property
    def usual_ns(self) -> float:
        """Median length of a step [ns]."""
        known = self.job.between_ends_ns[np.isfinite(self.job.between_ends_ns)]
        return float(np.median(known)) if known.size else 0.0

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.job.count

    @cached_property
    def own_ns(self) -> Floats:
        """Own work of each unit beside that of normal steps [ns], shape (units, steps)."""
        own: Floats = self.work_ns - self.reference.normal(self.work_ns)
        return own

    @cached_property
    def excess_ns(self) -> Floats:
        """What the edges of each unit take longer than normal [ns], shape (units, steps)."""
        known = self.compute.normal_ns > 0
        normal_ns = np.where(known, self.compute.normal_ns, np.nan)
        excess: Floats = self.compute.excess * normal_ns[:, None]
        return excess

    @cached_property
    def noise_ns(self) -> Floats:
        """Standard deviation of what each unit loses in a normal step [ns], shape (units,).

        It is often far below that of the length of a step, which holds the noise of all units.
        """
        graph = _in_graph_or_own(self.excess_ns, self.own_ns, self.compute.normal_ns > 0)
        noise_ns = np.nan_to_num(spread(_mean_of_both(graph, self.own_ns)), nan=np.inf)
        least_ns = max(NOISE_FLOOR * self.usual_ns, self.tick_ns)
        return np.clip(noise_ns, least_ns, self.normal.noise_ns)

    @cached_property
    def servers(self) -> Ints:
        """Server of each unit, shape (units,)."""
        return self.context.topology.servers[self.job.phases.endpoints].astype(np.int64)

    def address(self, unit: int) -> str:
        """Address of a unit."""
        return self.context.topology.addresses[int(self.job.phases.endpoints[unit])]

    def server_of(self, unit: int) -> str:
        """Name of the server of a unit."""
        return self.context.topology.endpoints[int(self.job.phases.endpoints[unit])].server

    def server_name(self, server: int) -> str:
        """Name of a server, or of the NVLink domain that several servers share."""
        at = int(np.flatnonzero(self.servers == server)[0])
        return self.context.topology.endpoints[int(self.job.phases.endpoints[at])].home

    def compute_beside(self, usual: Usual) -> Table:
        """Excess of each rank where ``usual`` durations tell who waits for whom."""
        graph = _without_waiting(self.measured, usual, self.rendezvous)
        ranks = self.job.phases.endpoints.size
        return table_of(graph.compute, graph.nodes.rank, ranks, self.reference, self.tick_ns)


def durations_of(context: Context, job: JobView) -> Durations | None:
    """Measure ``job``; None if it has no traffic in steps."""
    if job.count < 2:
        return None
    work = own_work_ns(context, job)  # before the graph: both are large
    nodes = nodes_of(context, job)
    if nodes is None:
        return None
    tick = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    tick_ns = float(tick) if tick > 1 else 0.0
    servers = context.topology.servers[job.phases.endpoints].astype(np.int64)
    role = roles_of(nodes, job.pipelines.stage, servers)
    graph = with_durations(nodes, role, job.phases.first_of_epoch, tick_ns)
    at_once_ns = max(tick_ns, min(TOGETHER_NS, TOGETHER * job.period_ns))
    rendezvous = rendezvous_of(nodes, servers, at_once_ns)
    _forget_at_once(graph, rendezvous.of[nodes.operation])
    kind = kinds_of(context, job, np.zeros(job.count, np.int64))
    normal = normal_of(job.between_ends_ns, kind, tick_ns)
    reference = Reference(kind, normal.healthy)
    compared = _compared(job, graph, rendezvous, reference, tick_ns)
    alone = _lost_alone(job, normal, compared[1], work - reference.normal(work))
    is_none = alone | saving_steps(context, job)  # the kind of saves is known
    habit = periodic_steps(np.where(is_none, np.nan, normal.longer_ns), normal.noise_ns)
    if habit.any():
        kind = kinds_of(context, job, habit)
        normal = normal_of(job.between_ends_ns, kind, tick_ns)
        reference = Reference(kind, normal.healthy)
        compared = _compared(job, graph, rendezvous, reference, tick_ns)
    without_waits, compute, transfer, on_path = compared
    return Durations(
        context, job, graph, without_waits, rendezvous, reference, normal, work, compute, transfer,
        on_path, traffic_of(context, job), tick_ns,
    )  # fmt: skip


def _forget_at_once(graph: StepGraph, met: Ints) -> None:
    """Computations since a join of the same rendezvous, at the same moment, are unknown.

    ``met`` is the rendezvous of each participation.
    """
    for step in range(graph.compute.shape[1]):
        at = np.flatnonzero(graph.after_join[:, step])
        graph.compute[at[met[graph.parent[at, step]] == met[at]], step] = np.nan


def bounded_loss(excess_ns: Floats, own_ns: Floats, in_graph: Bools, bound_ns: Floats) -> Floats:
    """What each unit lost in each step [ns], shape (units, steps).

    The mean of what the graph and its own work show, each no less than nothing and no more than
    ``bound_ns``, shape (steps,). Where one is unknown, or a unit is not ``in_graph``, the other
    stands for it. So does the graph in steps in which own work says that most units lost half of
    that, and the graph does not: culprits are not most units, so own work holds waiting for them.
    """
    graph, own = (np.clip(one, 0.0, bound_ns) for one in (excess_ns, own_ns))
    graph = _in_graph_or_own(graph, own, in_graph)
    both = (np.where(in_graph[:, None], one, np.nan) for one in (graph, own))
    by_graph, by_own = (nanmedian(one, axis=0) for one in both)
    own = np.where(by_own - by_graph > HALF * bound_ns, graph, own)
    return np.nan_to_num(_mean_of_both(graph, own))


def _in_graph_or_own(graph_ns: Floats, own_ns: Floats, in_graph: Bools) -> Floats:
    """What the graph shows, or own work where it shows nothing, shape (units, steps)."""
    return np.where(in_graph[:, None] & np.isfinite(graph_ns), graph_ns, own_ns)


def _mean_of_both(graph_ns: Floats, own_ns: Floats) -> Floats:
    """The weighted mean of what the graph and own work show; the graph where that is unknown."""
    both: Floats = graph_ns + OWN_WEIGHT * np.where(np.isfinite(own_ns), own_ns - graph_ns, 0.0)
    return both


def _lost_alone(job: JobView, normal: Normal, compute: Table, own_ns: Floats) -> Bools:
    """Steps that are longer since one unit lost what a quarter of its stage did not, (steps,).

    That is no habit of the job. Units without events are not known to have lost nothing.
    """
    seen = (compute.normal_ns > 0) | np.isfinite(own_ns).any(axis=1)
    bound_ns = np.maximum(np.nan_to_num(normal.longer_ns), 0.0)
    excess_ns = compute.excess * compute.normal_ns[:, None]
    lost = bounded_loss(excess_ns, own_ns, compute.normal_ns > 0, bound_ns)
    alone, stage = np.zeros(own_ns.shape[1]), job.pipelines.stage
    for one in np.unique(stage).tolist():
        own = lost[seen & (stage == one)]
        if len(own) > 1:
            alone = np.maximum(alone, own.max(axis=0) - np.quantile(own, QUARTER, axis=0))
    clear = bound_ns > HEALTHY_DEVIATIONS * normal.noise_ns
    return clear & (alone > QUARTER * bound_ns)


def _compared(
    job: JobView, measured: StepGraph, rendezvous: Rendezvous, reference: Reference,
    tick_ns: float,
) -> tuple[StepGraph, Table, Table, PathTimes]:  # fmt: skip
    """Compare the durations of ``measured`` with those of the reference."""
    usual = reference.usual(measured.compute)
    graph = _without_waiting(measured, usual, rendezvous)
    nodes, ranks = graph.nodes, job.phases.endpoints.size
    communicators = len(nodes.communicators)
    return (
        graph,
        table_of(graph.compute, nodes.rank, ranks, reference, tick_ns),
        table_of(graph.transfer, nodes.communicator, communicators, reference, tick_ns),
        times_on_path(measured, (usual, reference.usual(measured.transfer)), ranks, rendezvous),
    )


def _without_waiting(measured: StepGraph, usual: Usual, rendezvous: Rendezvous) -> StepGraph:
    """The graph whose computations hold no waiting for others of the same rendezvous."""
    without = without_waiting(measured, usual, rendezvous)
    without[hold_waiting(measured.nodes)] = np.nan
    return replace(measured, compute=without)
