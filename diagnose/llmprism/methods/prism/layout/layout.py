"""The layout of a job: how many ranks along each axis, and how sure that is.

The NICs of one stage form rings, one for each tensor-parallel rank and each replica of a server. So
the network shows the product of both numbers, and not each of them. tp is the number of NICs of a
server and stage that work in lockstep (:mod:`~llmprism.methods.prism.layout.replicas`). Where there
is no pipeline, or no noise, the sizes of messages may show how many replicas a server holds
(:mod:`~llmprism.methods.prism.layout.ring_sizes`). Otherwise nothing distinguishes ranks of a
tensor-parallel group from replicas: tp is then taken to be the number of rings, with a lower
confidence. NICs that work in lockstep, but are members of one ring, are context-parallel.

Where sizes of messages do not show what is sharded, a silence that parts gradients from gathers
may: the bytes before it show how often gradients are reduced, once (``zero1``) or in every
micro-batch (``zero2``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.io.topology import Topology
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.kinds.unseen import may_go_on
from llmprism.methods.prism.layout.inside_servers import SHOWN, UNKNOWN, inside_servers
from llmprism.methods.prism.layout.replicas import Replicas
from llmprism.methods.prism.layout.ring_sizes import RingShare, gpus_at
from llmprism.methods.prism.layout.sharding import find_sharding
from llmprism.methods.prism.parameters import HALF
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.pipelines.split_passes import halves_passes, splits_passes
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.timeline.parted_gathers import reductions_before_updates
from llmprism.numerics.arrays import Bools, Ints
from prism_common.kinds import AXES

UNKNOWN_NAME = "unknown"
CONTRADICTED = 0.5  # confidence in sizes that are given, where records show other ones
TICKS = 2  # of the clock, by which rounding changes the length of a step
SHARED = 0.3  # confidence where GPUs share a NIC: they may be replicas or one tensor-parallel group
HIDDEN = 0.5  # ... where sizes are unknown, or much traffic is of no kind; steps may lack stages
STATED = 2 / 3  # least share of a way to divide a job that is stated: twice that of all others
ALIKE = 2  # micro-batches: both ways to shard may have the same bytes
SAMPLED = "sampled packets show their own size, and not that of messages"
LITTLE = 0.01  # of what the NICs of a job move: services on a NIC that no rank uses


@dataclass(frozen=True)
class Layout:
    """Ranks along each axis, -1 where flows cannot tell; see ``layouts`` in the tables.

    ``is_stated`` is False if dp and tp are only the likeliest of the ways in ``evidence``.
    """

    dp: int
    pp: int
    tp: int
    ep: int
    cp: int
    micro_batches: int
    schedule: str
    sharding: str
    period_ns: int
    confidence: float
    evidence: dict[str, object] = field(default_factory=dict)
    is_stated: bool = True


def as_given(
    layout: Layout,
    given: Mapping[str, int],
    contradictions: Mapping[str, object],
    classes: Sequence[KindOf],
) -> Layout:
    """``layout`` with sizes that an operator gives; its evidence has what records show instead."""
    sizes = {axis: getattr(layout, axis) for axis in AXES}
    differ = {axis: sizes[axis] for axis in given if sizes[axis] not in (UNKNOWN, given[axis])}
    evidence = {**layout.evidence, "given": ["members", *given], **contradictions}
    if not given:
        return replace(layout, evidence=evidence)
    kinds = sorted({one.shown for one in classes if one.shown})
    evidence |= {"records_show": differ} if differ else {}
    evidence |= {"kinds_excluded": kinds} if kinds else {}
    sure = layout.confidence if len(given) < len(AXES) else 1.0
    sure = min(sure, CONTRADICTED) if differ or kinds else sure
    return replace(layout, **{**sizes, **given}, evidence=evidence, confidence=sure, is_stated=True)


def find_layout(
    topology: Topology,
    connections: Connections,
    phases: Phases,
    pipelines: Pipelines,
    replicas: Sequence[Replicas],
    share: RingShare | None,
) -> Layout:
    """Work the layout of one job out; ``share`` is what the sizes of its messages show, if any."""
    gpus = [gpus_at(topology, end) for end in phases.endpoints.tolist()]
    ranks, shared = sum(gpus), any(one > 1 for one in gpus)
    inside = inside_servers(topology, connections, phases, pipelines, replicas, share)
    hidden = _is_hidden(topology, connections, phases, pipelines)
    known = _are_known(phases) and not hidden
    dp, tp = _replicas(ranks, pipelines.length, inside.tp, inside.ep * inside.cp, known)
    is_counted = known and pipelines.length == 1 and inside.ring != UNKNOWN
    if is_counted:
        dp = inside.ring // (inside.ep * inside.cp)
    may_hide = not is_counted and _may_hide_ranks(topology, connections, phases, pipelines)
    doubtful = dp == UNKNOWN or may_hide
    sure = phases.quality * (SHOWN if tp * dp == 1 else inside.confidence)
    sure = min(sure, phases.quality * SHARED) if shared else sure
    evidence: dict[str, object] = {
        "ranks": ranks,
        "stages": pipelines.length,
        "dp_group_nics": _largest(phases.dp_group),
        "ring_members": inside.ring,
        "tp_from": inside.shown_by,
        "division_quality": round(phases.quality, 4),
    }
    sure = min(sure, _weakest(phases), HIDDEN if doubtful else 1.0)
    stated = dp == UNKNOWN or (sure >= STATED and not inside.may_be)
    if not stated:
        evidence["one_of"] = [
            {"dp": dp * tp // one, "tp": one, "share": part}
            for one, part in inside.may_be or ((tp, round(sure, 3)),)
        ]
    return Layout(
        dp, UNKNOWN if hidden else pipelines.length, tp, inside.ep, inside.cp,
        UNKNOWN if shared else pipelines.micro_batches,
        UNKNOWN_NAME if hidden else _schedule(phases, pipelines),
        _sharding(topology, connections, phases, pipelines, dp), _period_ns(phases),
        sure, evidence, stated,
    )  # fmt: skip


def of_packets(layout: Layout) -> Layout:
    """The layout where records are single packets: their sizes and times show no message."""
    evidence = {**layout.evidence, "unknown_because": SAMPLED, "tp_from": "nothing"}
    return Layout(
        UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN_NAME, UNKNOWN_NAME,
        layout.period_ns, 0.0, evidence,
    )  # fmt: skip


def _is_hidden(
    topology: Topology, connections: Connections, phases: Phases, pipelines: Pipelines
) -> bool:
    """Whether a part of the job may be out of sight, so that nobody knows its size."""
    return (
        _hides_stages(topology, connections, phases, pipelines)
        or _leaves_out(connections, phases, pipelines)
        or may_go_on(topology, connections, phases.endpoints)
    )


def _sharding(
    topology: Topology, connections: Connections, phases: Phases, pipelines: Pipelines, dp: int
) -> str:
    """What each of ``dp`` replicas holds, by what moves, or else by when it moves."""
    found = find_sharding(topology, connections, phases, pipelines.micro_batches)
    if found != UNKNOWN_NAME:
        return found
    return _sharding_in_time(connections, phases, pipelines, max(dp, 2))


def _hides_stages(
    topology: Topology, connections: Connections, phases: Phases, pipelines: Pipelines
) -> bool:
    """Whether only NVLink shows some stages, behind NICs that nobody else uses.

    With 1F1B, no more activations wait than there are stages from the first seen one to the last.
    Ranks fill a server in the order of its NICs: if as many of them are idle before those of the
    first stage, wherever there are any, a stage before it may be there.
    """
    if pipelines.length == 1:
        return False
    idle, homes = _idle(topology, connections, phases), topology.servers[phases.endpoints]
    if pipelines.chunks == 1 and pipelines.length < pipelines.deepest < pipelines.micro_batches:
        return bool(idle[np.isin(topology.servers, homes)].any())
    nics = topology.positions
    first = phases.endpoints[pipelines.stage == 0]
    for server in np.unique(topology.servers[first]).tolist():
        own = nics[first[topology.servers[first] == server]]
        before = idle & (topology.servers == server) & (nics < own.min())
        if before.sum() < own.size:
            return False
    return True


def _idle(topology: Topology, connections: Connections, phases: Phases) -> Bools:
    """Endpoints that move next to nothing, beside what those of the job move."""
    moved = np.zeros(topology.servers.size)
    for side in (connections.src, connections.dst):
        np.add.at(moved, side, connections.total_bytes)
    idle: Bools = moved < LITTLE * np.median(moved[phases.endpoints])
    return idle


def _leaves_out(connections: Connections, phases: Phases, pipelines: Pipelines) -> bool:
    """Whether ranks that send something are in no stage, so that servers hide their hops."""
    sends = np.isin(phases.endpoints, connections.src[connections.carries])
    return pipelines.length > 1 and bool((sends & (pipelines.stage < 0)).any())


def _may_hide_ranks(
    topology: Topology, connections: Connections, phases: Phases, pipelines: Pipelines
) -> bool:
    """Whether a single ring joins servers that have idle NICs, of a job without pipeline.

    Servers with as many ranks each have as many rings. If some have one rank and others several,
    one ring passes through all of them, and NICs of the others may be idle although they have GPUs.
    """
    homes = topology.servers[phases.endpoints]
    if pipelines.length > 1 or np.unique(homes).size < homes.size:
        return False
    idle = _idle(topology, connections, phases) & np.isin(topology.servers, homes)
    return bool(idle.any())


def _replicas(ranks: int, stages: int, tp: int, others: int, known: bool) -> tuple[int, int]:
    """Ranks along dp and tp, -1 where flows cannot tell; ``others`` are those along ep and cp.

    All axes make one lattice: with experts, dp counts the replicas of all experts. Where its size
    does not divide the ranks, some ranks are hidden.
    """
    if not known:
        return UNKNOWN, UNKNOWN
    each = max(1, stages * tp * others)
    return (max(1, ranks // each) if ranks % each == 0 or ranks < each else UNKNOWN), tp


def _are_known(phases: Phases) -> bool:
    """Whether every class of the job has a kind."""
    return all(one.kind != "unknown" for one in phases.classes)


def _weakest(phases: Phases) -> float:
    """Confidence of the kind that is known least; the mean over its classes, by bytes."""
    sure = [1.0]
    for kind in ("dp", "pp", "tp", "ep", "cp"):
        own = [one for one in phases.classes if one.kind == kind]
        if own:
            total = sum(one.one.bytes for one in own)
            sure.append(sum(one.confidence * one.one.bytes for one in own) / total)
    return min(sure)


def _largest(group: Ints) -> int:
    return int(np.bincount(group[group >= 0]).max()) if (group >= 0).any() else 1


def _schedule(phases: Phases, pipelines: Pipelines) -> str:
    """Name of the schedule, from how many activations wait for their gradients at most."""
    if pipelines.length == 1:
        return "none"
    if pipelines.chunks != 1:
        return "interleaved" if pipelines.chunks else "unknown"
    if splits_passes(phases, pipelines):
        return "zb-h1"
    last, middle = pipelines.answers.are_split, halves_passes(phases, pipelines)
    if not pipelines.deepest or pipelines.micro_batches <= pipelines.length:
        return "unknown"
    if pipelines.deepest >= pipelines.micro_batches:
        return "gpipe"
    unclear = last is None and np.isfinite(pipelines.answers.later)  # longer than whole passes are
    return "1f1b" if {last, middle} - {None} == {False} and not unclear else "unknown"


def _period_ns(phases: Phases) -> int:
    """Usual length of a step, over ranks and steps [ns].

    The mean of what is within two ticks of the clock around the median, which is a whole number of
    ticks itself.
    """
    for kind in ("dp", "pp"):
        end = phases.moments[kind].end_ns
        whole = end[(end != MISSING).all(axis=1)]
        if whole.size and whole.shape[1] > 1:
            steps = np.diff(whole, axis=1)
            near = np.abs(steps - np.median(steps)) <= TICKS * clock_tick_ns(whole)
            return int(np.mean(steps[near])) if near.any() else int(np.median(steps))
    return 0


def _sharding_in_time(
    connections: Connections, phases: Phases, pipelines: Pipelines, members: int
) -> str:
    """Name what ``members`` replicas shard, or answer that it is unknown."""
    own = [one for one in phases.classes if one.kind == "dp"]
    if pipelines.length == 1 or not own or pipelines.micro_batches < ALIKE:
        return "unknown"
    often = np.concatenate(
        [reductions_before_updates(connections, one, phases, pipelines, members) for one in own]
    )
    numbers = {1: "zero1", pipelines.micro_batches: "zero2"}
    if pipelines.micro_batches == ALIKE:
        del numbers[ALIKE]
    for number, name in numbers.items():
        if often.size and (often == number).sum() > HALF * often.size:
            return name
    return "unknown"
