"""What records of collectives give to the judge of the method ``prism``: durations by step.

All processes of a job take the same time for a step. What a process does not wait is its own work,
so own work is what is left of a step. Who makes a step longer does not wait longer in it, and all
others do. What the transfers of a communicator take is known as well. Records name no link, so a
slow transfer is a part of the network that all slow communicators have in common: a rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.collectives.operations import Operations
from llmprism.collectives.structure import Shape, Stepped
from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.graph.durations import StepGraph
from llmprism.methods.prism.graph.nodes import Communicator, Nodes
from llmprism.methods.prism.graph.path import PathTimes
from llmprism.methods.prism.graph.rendezvous import Rendezvous
from llmprism.methods.prism.graph.traffic import Traffic
from llmprism.methods.prism.normal import Reference, normal_of, periodic_steps, table_of
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.timeline.timeline import Ranks
from llmprism.numerics.arrays import Floats, Ints, grouped
from llmprism.numerics.missing import nanmedian, nanquantile

MOST_WAIT = 0.9
"""Of the processes of a job: so many wait no longer than one that nothing held up."""
SHORTEST = 0.1
"""Own work is no less than this share of a step, where waits of several kernels overlap."""


def view_of(shape: Shape, stepped: Stepped, endpoints: Ints, origin_ns: int) -> JobView:
    """The job and its steps; ``endpoints`` are those of its processes."""
    count = stepped.end_ns.shape[1]
    stages = int(shape.stage.max()) + 1 if shape.stage.size else 0
    unknown = np.full((len(endpoints), count), np.nan)
    start = np.full_like(stepped.end_ns, np.nan)
    start[:, 1:] = stepped.end_ns[:, :-1]
    phases = Phases(
        endpoints.astype(np.int32), count, np.zeros(1, np.int64), (), 1.0, {},
        np.full(len(endpoints), -1),
    )  # fmt: skip
    pipelines = Pipelines(
        shape.stage, np.where(shape.stage >= 0, 0, -1), max(stages, 1), stepped.micro_batches, 1,
        np.nan, np.nan, np.nan, unknown, unknown, unknown, unknown, 0, origin_ns,
    )  # fmt: skip
    ranks = Ranks(start, stepped.end_ns, stepped.end_ns, origin_ns)
    return JobView(shape.name, phases, pipelines, ranks, np.full(len(endpoints), -1))


@dataclass(frozen=True)
class Rings:
    """The hops of all communicators, as connections without records.

    Attributes
    ----------
    of : the connections of each communicator: from each member to the next one.
    src, dst : processes of each connection.
    """

    of: dict[int, Ints]
    src: Ints
    dst: Ints


def rings_of(operations: Operations) -> Rings:
    """Each communicator as a ring of the processes that have records."""
    rows, many = operations.rows, len(operations.records.communicators)
    keys, at = np.unique(rows["communicator"].astype(np.int64) << 32 | rows["process"],
                         return_index=True)  # fmt: skip
    communicator, process = keys >> 32, keys & 0xFFFFFFFF
    order = np.lexsort((rows["place"][at], communicator))
    communicator, process = communicator[order], process[order]
    of = {one: np.flatnonzero(communicator == one) for one in range(many)}
    following = np.concatenate([np.roll(own, -1) for own in of.values()])
    return Rings(of, process, process[following])


def context_of(topology: Topology, jobs: list[JobView], rings: Rings, endpoints: Ints) -> Context:
    """The jobs, and their communicators as connections whose paths are unknown."""
    number = np.arange(rings.src.size)
    zeros, ones = np.zeros(number.size, np.int64), np.ones(number.size, np.int64)
    src, dst = (endpoints[one].astype(np.int32) for one in (rings.src, rings.dst))
    codes = np.full(number.size, -1, np.int32)
    flows = FlowTable(zeros, ones, src, dst, ones, codes, topology.addresses, [])
    no = np.zeros(number.size, np.bool_)
    connections = Connections(
        src, dst, ones, ones, ones, zeros, ones, no, no, no, codes,
        grouped(number, number.size), number.astype(np.int32), ones, no,
    )  # fmt: skip
    return Context(flows, topology, connections, jobs)


def durations_of(
    operations: Operations, shape: Shape, stepped: Stepped, rings: Rings, context: Context,
    job: JobView,
) -> Durations:  # fmt: skip
    """Durations of one job beside those of its normal steps."""
    length = stepped.length_ns
    steps = length.size
    tick_ns = operations.tick_ns if stepped.is_measured else 0.0
    kind = np.zeros(steps, np.int64)
    normal = normal_of(length, kind, tick_ns)
    habit = periodic_steps(normal.longer_ns, normal.noise_ns)
    if habit.any():
        kind = np.unique(habit, return_inverse=True)[1]
        normal = normal_of(length, kind, tick_ns)
    reference = Reference(kind, normal.healthy)
    work = _own_work(stepped, reference)
    graph = _graph(operations, shape, stepped, rings, work)
    compute = table_of(work, np.arange(len(work)), len(work), reference, tick_ns)
    moved = np.vstack((stepped.transfer_ns, np.full((1, steps), np.nan)))
    transfer = table_of(moved, np.arange(len(moved)), len(moved), reference, 0.0)
    rendezvous = Rendezvous(np.arange(len(graph.nodes.begin)), np.zeros(len(graph.nodes.begin)))
    traffic = _traffic(shape, stepped, rings)
    path = _on_path(moved, reference, work)
    return Durations(
        context, job, graph, graph, rendezvous, reference, normal, work, compute, transfer, path,
        traffic, tick_ns,
    )  # fmt: skip


def _traffic(shape: Shape, stepped: Stepped, rings: Rings) -> Traffic:
    """All hops of a communicator go at the pace of its slowest one."""
    own = [rings.of[one] for one in shape.communicators.tolist()]
    place = np.full(rings.src.size, -1)
    place[np.concatenate(own)] = np.arange(sum(one.size for one in own))
    busy = np.repeat(stepped.transfer_ns, [one.size for one in own], axis=0)
    unknown = np.full_like(busy, np.nan)
    return Traffic(place, busy, unknown, unknown)


def _graph(
    operations: Operations, shape: Shape, stepped: Stepped, rings: Rings, work: Floats
) -> StepGraph:
    """One operation of each communicator in a step, and one of each process alone: its own work."""
    own, (communicators, steps) = len(work), stepped.transfer_ns.shape
    sizes = np.bincount(
        operations.rows["communicator"], operations.rows["size_bytes"],
        len(operations.records.communicators),
    )  # fmt: skip
    named = [
        Communicator(shape.kind[one], rings.of[one], float(sizes[one]) / steps)
        for one in shape.communicators.tolist()
    ]
    begin = np.zeros((communicators + own, steps))
    begin[communicators:] = np.nan
    end = np.vstack((stepped.transfer_ns, np.full((own, steps), np.nan)))
    communicator = np.minimum(np.arange(communicators + own), communicators)
    alone = Communicator("dp", rings.of[int(shape.communicators[0])][:1], 0.0)
    unknown = np.full((own, steps), np.nan)
    nodes = Nodes(
        (*named, alone), communicator, begin, end, communicators + np.arange(own), np.arange(own),
        unknown, unknown,
    )  # fmt: skip
    before = np.full((own, steps), -1, np.int32)
    return StepGraph(
        nodes, work, before, np.zeros((own, steps), np.bool_), end - begin, np.zeros(own, np.int64),
    )  # fmt: skip


def _own_work(stepped: Stepped, reference: Reference) -> Floats:
    """Own work of each process in each step [ns], shape (processes, steps).

    Kernels also wait while their process computes, so waits that are longer may exceed what a step
    is longer by. Who waits longer than usual by most has lost nothing; others have lost what they
    wait less. What nobody waits for, and no transfer takes, all have lost.
    """
    longer, moved = (
        one - reference.normal(one) for one in (stepped.waited_ns, np.nan_to_num(stepped.moved_ns))
    )
    most = nanquantile(longer.T, MOST_WAIT)
    lengths = reference.normal(stepped.length_ns[None])
    unseen = np.nan_to_num(stepped.length_ns - lengths[0] - most) - moved.max(axis=0, initial=0.0)
    unseen = np.maximum(unseen, 0.0)
    usual = np.maximum(lengths - reference.normal(stepped.waited_ns), SHORTEST * lengths)
    work: Floats = usual + most - longer + unseen
    return work


def _on_path(transfer_ns: Floats, reference: Reference, work: Floats) -> PathTimes:
    """Transfers on the critical path: of those at the same time, the one that is longer by most."""
    longer = np.nan_to_num(transfer_ns - reference.normal(transfer_ns))
    worst = np.zeros_like(longer)
    at, steps = np.argmax(longer, axis=0), np.arange(longer.shape[1])
    worst[at, steps] = np.maximum(longer[at, steps], 0.0)
    path = np.where(worst > 0, np.nan_to_num(transfer_ns), 0.0)
    return PathTimes(np.nan_to_num(work), path, worst)


def as_judged(stepped: Stepped) -> Stepped:
    """``stepped`` from its first whole step to its last one, each as long as waiting explains.

    From step to step, all processes are slower or faster together by more than a culprit makes one
    of them. So a step is longer than usual by what most processes wait longer in it, and what it is
    longer by besides if transfers take so much longer. The judge takes the first step for one that
    was cut, so an unknown one is put before it.
    """
    known = np.flatnonzero(np.isfinite(nanmedian(stepped.waited_ns, axis=0)))
    if not known.size:
        return stepped
    first, last = int(known[0]), int(known[-1]) + 1
    judged = replace(stepped, first=stepped.first + first - 1, **{
        name: np.insert(getattr(stepped, name)[..., first:last], 0, np.nan, axis=-1)
        for name in ("end_ns", "waited_ns", "moved_ns", "late_ns", "transfer_ns", "length_ns")
    })  # fmt: skip
    if not np.isfinite(judged.length_ns).any():
        return judged
    waits, slower = (one - nanmedian(one, axis=1)[:, None]
                     for one in (judged.waited_ns, judged.moved_ns))  # fmt: skip
    usual, most = np.nanmedian(judged.length_ns), nanquantile(waits.T, MOST_WAIT)
    besides = np.nan_to_num(judged.length_ns - usual - most) if stepped.is_measured else 0.0
    length = usual + most + np.clip(besides, 0.0, np.maximum(nanquantile(slower.T, 1.0), 0.0))
    judged.end_ns[:, 0] = judged.end_ns[:, 1] - length[1]
    return replace(judged, length_ns=length)
