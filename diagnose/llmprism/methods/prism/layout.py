"""The layout of a job: how many ranks along each axis, and how sure that is.

What the network shows is the product of what it hides. The NICs of one stage form rings, one
for each tensor-parallel rank and each replica of a server. Those of one tensor-parallel group
work in lockstep, so they send their activations at the same time in every step, while replicas
differ by the noise of their computing until the gradients bring them together. So tp is the
number of NICs of a server and stage that send together. Where there is no pipeline, or no
noise, nothing tells ranks of a tensor-parallel group from replicas in one server: tp is then
taken to be the number of rings, with half the confidence.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.io.topology import Topology
from llmprism.methods.prism.connections import Connections
from llmprism.methods.prism.phases import MISSING, Phases
from llmprism.methods.prism.pipelines import Pipelines
from llmprism.numerics.arrays import Floats, Ints
from llmprism.numerics.graph import components_of_edges

COARSE = 2  # ticks of the clock that differences must exceed to show anything
LOCKSTEP = 0.02  # of how much replicas differ: NICs of one tensor-parallel group differ by less
UNKNOWN = -1


@dataclass(frozen=True)
class Layout:
    """Ranks along each axis, -1 where flows cannot tell; see ``layouts`` in the tables."""

    dp: int
    pp: int
    tp: int
    ep: int
    cp: int
    micro_batches: int
    schedule: str
    period_ns: int
    confidence: float
    evidence: dict[str, object] = field(default_factory=dict)


def find_layout(
    topology: Topology, connections: Connections, phases: Phases, pipelines: Pipelines
) -> Layout:
    """Work the layout of one job out."""
    ranks = sum(_gpus(topology, end) for end in phases.endpoints.tolist())
    sizes = {kind: _group_size(connections, phases, kind) for kind in ("ep", "cp", "tp")}
    together, lockstep = _lockstep(topology, phases, pipelines)
    tp = sizes["tp"] if sizes["tp"] > 1 else together
    if tp == UNKNOWN:
        tp = _rings(topology, phases, pipelines)
    cp = max(1, sizes["cp"])
    dp = ranks // max(1, pipelines.length * tp * cp)
    evidence: dict[str, object] = {
        "ranks": ranks,
        "stages": pipelines.length,
        "dp_group_nics": _largest(phases.dp_group),
        "tp_from": "lockstep" if lockstep else "rings",
        "division_quality": round(phases.quality, 4),
    }
    sure = phases.quality * (1.0 if lockstep or tp * dp == 1 else 0.5)
    return Layout(
        max(1, dp), pipelines.length, tp, max(1, sizes["ep"]), cp, pipelines.micro_batches,
        _schedule(pipelines), _period_ns(phases), sure, evidence,
    )  # fmt: skip


def _gpus(topology: Topology, end: int) -> int:
    gpus = topology.endpoints[end].gpus
    return len(gpus) if gpus else 1


def _group_size(connections: Connections, phases: Phases, kind: str) -> int:
    """Members of the largest group that connections of ``kind`` join; 0 if there are none."""
    own = [one.one.connections for one in phases.classes if one.kind == kind]
    if not own:
        return 0
    chosen = np.concatenate(own)
    src, dst = connections.src[chosen], connections.dst[chosen]
    label = components_of_edges(src, dst)
    ends = np.column_stack((np.tile(label, 2), np.concatenate((src, dst))))
    return int(np.bincount(np.unique(ends, axis=0)[:, 0]).max())


def _largest(group: Ints) -> int:
    return int(np.bincount(group[group >= 0]).max()) if (group >= 0).any() else 1


def _lockstep(topology: Topology, phases: Phases, pipelines: Pipelines) -> tuple[int, bool]:
    """NICs of a server and stage that send together, and whether flows show it."""
    sent = phases.moments["pp"].sent_ns
    if pipelines.length == 1:
        return UNKNOWN, False
    finest = COARSE * clock_tick_ns(sent[sent != MISSING])
    sizes = []
    shown = False
    servers = topology.servers[phases.endpoints]
    for key in np.unique(np.column_stack((servers, pipelines.stage)), axis=0).tolist():
        rows = np.flatnonzero((servers == key[0]) & (pipelines.stage == key[1]))
        whole = (sent[rows] != MISSING).all(axis=0)
        if key[1] < 0 or not whole.any():
            continue
        times = (sent[rows][:, whole] - sent[rows][:1, whole]).astype(np.float64)
        if rows.size > 1 and np.median(np.ptp(times, axis=0)) <= finest:
            continue
        cluster, clear = _clusters(times)
        sizes += np.bincount(cluster).tolist()
        shown |= clear or rows.size == 1
    if not sizes:
        return UNKNOWN, False
    values, counts = np.unique(sizes, return_counts=True)
    return int(values[np.argmax(counts)]), shown


def _clusters(times: Floats) -> tuple[Ints, bool]:
    """Rows whose times agree in every step, and whether others clearly do not."""
    count = times.shape[0]
    apart = np.median(np.abs(times[:, None, :] - times[None, :, :]), axis=2)
    widest = float(apart.max())
    cluster = np.full(count, -1)
    for row in range(count):
        if cluster[row] < 0:
            cluster[(apart[row] <= LOCKSTEP * widest) & (cluster < 0)] = row
    return np.unique(cluster, return_inverse=True)[1], bool(np.unique(cluster).size > 1)


def _rings(topology: Topology, phases: Phases, pipelines: Pipelines) -> int:
    """Rings of a stage that pass through the same server, the usual number.

    A NIC that no exporter saw is taken to be in the stage of the others of its server.
    """
    servers = topology.servers[phases.endpoints]
    stage = pipelines.stage.copy()
    for server in np.unique(servers[stage < 0]).tolist() if pipelines.length > 1 else ():
        own = servers == server
        there = np.unique(stage[own & (stage >= 0)])
        if there.size == 1:
            stage[own] = there[0]
    counts = np.unique(np.column_stack((servers, stage)), axis=0, return_counts=True)[1]
    values, often = np.unique(counts, return_counts=True)
    return int(values[np.argmax(often)])


def _schedule(pipelines: Pipelines) -> str:
    """Name of the schedule, from how many activations wait for their gradients at most."""
    if pipelines.length == 1:
        return "none"
    if pipelines.chunks > 1:
        return "interleaved"
    if not pipelines.deepest or pipelines.micro_batches <= pipelines.length:
        return "unknown"
    return "gpipe" if pipelines.deepest >= pipelines.micro_batches else "1f1b"


def _period_ns(phases: Phases) -> int:
    """Median length of a step, over ranks and steps [ns]."""
    for kind in ("dp", "pp"):
        end = phases.moments[kind].end_ns
        whole = end[(end != MISSING).all(axis=1)]
        if whole.size and whole.shape[1] > 1:
            return int(np.median(np.diff(whole, axis=1)))
    return 0
