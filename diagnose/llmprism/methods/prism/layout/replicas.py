"""Replicas inside a server: which of its NICs work in lockstep, and which do not.

The ranks of one tensor-parallel group work in lockstep, so their NICs send activations at the
same time in every step. Replicas differ by the noise of their computing until the gradients
bring them together. So among the NICs of one server and stage, those that send together are one
tensor-parallel group. That shows something only if ranks differ at all: where the NICs of a server
agree within the clock's resolution, those of other servers must not.

The network shows one ring for each NIC of a tensor-parallel group. If a server holds several
replicas, NVLink joins their rings. Flows do not show which NIC of one replica continues the ring
of which NIC of the other. The usual order of ranks is assumed: first with first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.io.topology import Topology
from llmprism.methods.prism.parameters import QUARTER
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.numerics.arrays import Codes, Floats, Ints
from llmprism.numerics.graph import components
from llmprism.numerics.missing import finite_median, nanmedian

COARSE = 2  # ticks of the clock, or errors of times, that differences must exceed to show anything
SAMPLES = 4  # of an activation, on average: with fewer, many have none
LOCKSTEP = 0.02  # of how much replicas differ: NICs of one tensor-parallel group differ by less


@dataclass(frozen=True)
class Replicas:
    """The NICs of one server and stage.

    Attributes
    ----------
    rows : indices into the job's endpoints.
    number : replica of each, from 0.
    shown : whether times show it, or there is only one NIC.
    apart : how much the times of its replicas vary, over how much NICs of other servers vary from
        them. NaN if it is one replica, or no other server shows it.
    """

    rows: Ints
    number: Ints
    shown: bool
    apart: float = np.nan


def find_replicas(
    topology: Topology, phases: Phases, pipelines: Pipelines, sample_bytes: float = 0.0
) -> list[Replicas]:
    """Divide the NICs of every server and stage; none for a job without pipeline.

    Servers whose NICs all send within the clock's resolution show nothing, if those of others do so
    at the same times. They are left out, and so are those whose NICs differ, but by too little for
    replicas: far less than NICs of other servers do from them, or than one pass varies. Sampling
    and clocks that drift blur the times of a tensor-parallel group, and ranks that share experts
    wait for each other in every pass. ``sample_bytes`` is what one sampled packet stands for.
    """
    if pipelines.length == 1:
        return []
    sent = phases.moments["pp"].sent_ns
    tick = clock_tick_ns(sent[sent != MISSING])
    homes = _homes(topology, phases, pipelines)
    shift = clock_shifts(topology, phases.endpoints, sent, homes)
    sent = np.where(sent == MISSING, MISSING, sent - shift[:, None])
    pass_ns = _pass_varies(pipelines)
    blur_ns = max(float(tick) if tick > 1 else 0.0, sampling_blur_ns(phases, sample_bytes))
    found = []
    for rows in homes:
        whole = (sent[rows] != MISSING).all(axis=0)
        if not whole.any():
            continue
        times = (sent[rows][:, whole] - sent[rows][:1, whole]).astype(np.float64)
        others = np.setdiff1d(np.flatnonzero(pipelines.stage == pipelines.stage[rows[0]]), rows)
        seen, finest = (sent, rows, others), COARSE * max(blur_ns, 1.0)
        if rows.size == 1 or np.median(np.ptp(times, axis=0)) > finest:
            number = _alike(times, blur_ns)
            inside, away = _vary_inside(sent, rows[_firsts(number)]), _others_vary(*seen)
            if number.any() and inside < QUARTER * max(away, pass_ns):
                continue
            shown = bool(rows.size == 1 or number.any())
            found.append(Replicas(rows, number, shown, inside / away if inside * away else np.nan))
        elif finest < QUARTER * _others_vary(*seen):
            found.append(Replicas(rows, np.zeros(rows.size, np.int64), True))
    return found


def _homes(topology: Topology, phases: Phases, pipelines: Pipelines) -> list[Ints]:
    """Indices of the endpoints of each server and stage."""
    cells = np.column_stack((topology.servers[phases.endpoints], pipelines.stage))
    return [
        np.flatnonzero((cells == cell).all(axis=1))
        for cell in np.unique(cells[pipelines.stage >= 0], axis=0)
    ]


def clock_shifts(topology: Topology, endpoints: Codes, sent: Ints, homes: list[Ints]) -> Ints:
    """How much later the clock of each endpoint's leaf is than that of the first leaf [ns].

    NICs of a server at different leaves have different exporters. What NICs at one leaf are later
    than those at another one, in most servers alike, is the difference of two clocks. Replicas
    differ from server to server.
    """
    names = [topology.endpoints[end].switch for end in endpoints.tolist()]
    leaves: list[str | None] = [*dict.fromkeys(names)]
    leaf = np.array([leaves.index(name) for name in names])
    later: dict[int, list[float]] = {}
    for rows in homes:
        base = rows[leaf[rows] == leaf[rows].min()][0]
        for row in rows[leaf[rows] > leaf[base]].tolist():
            both = (sent[row] != MISSING) & (sent[base] != MISSING)
            if leaf[base] == 0 and both.any():
                apart = float(np.median(sent[row][both] - sent[base][both]))
                later.setdefault(int(leaf[row]), []).append(apart)
    shift = np.array([np.median(later.get(one, [0.0])) for one in range(len(leaves))])
    shifts: Ints = np.rint(shift).astype(np.int64)[leaf]
    return shifts


def sampling_blur_ns(phases: Phases, sample_bytes: float) -> float:
    """How late the first sampled packet of an activation is, usually [ns].

    As late as packets that are sampled are apart. Infinite if many messages have no sample.
    """
    traffic = [one.traffic for one in phases.classes if one.kind == "pp"]
    if sample_bytes <= 0 or not traffic:
        return 0.0
    size = np.concatenate([one.size for one in traffic])
    lasts_ns = np.concatenate([one.end_ns - one.start_ns for one in traffic])
    if np.median(size) < SAMPLES * sample_bytes:
        return np.inf
    return float(np.median(lasts_ns / size)) * sample_bytes


def _firsts(number: Ints) -> Ints:
    """Index of the first row of each number."""
    return np.sort(np.unique(number, return_index=True)[1])


def _vary_inside(sent: Ints, rows: Ints) -> float:
    """How much the times of NICs of one server vary, from the first of ``rows`` [ns]; 0 for one.

    Constant differences, those of clocks and of speeds, do not count.
    """
    whole = (sent[rows] != MISSING).all(axis=0)
    return _varies(sent[rows[1:]][:, whole] - sent[rows[0]][whole]) if rows.size > 1 else 0.0


def _others_vary(sent: Ints, rows: Ints, others: Ints) -> float:
    """How much the times of NICs of other servers vary, from the first of ``rows`` [ns].

    0 if none of them was seen in all steps in which the ``rows`` were.
    """
    whole = (sent[rows] != MISSING).all(axis=0)
    seen = [row for row in others.tolist() if (sent[row][whole] != MISSING).all()]
    return _varies(sent[seen][:, whole] - sent[rows[0]][whole]) if seen else 0.0


def _varies(apart: Ints) -> float:
    """Median deviation of differences [ns], shape (NICs, steps), from their medians."""
    middle = np.median(apart, axis=1, keepdims=True)
    return float(np.median(np.abs(apart - middle)))


def _pass_varies(pipelines: Pipelines) -> float:
    """How much a forward pass of the first stage varies from step to step [ns]; 0 if unknown."""
    passes = (pipelines.second_sent - pipelines.first_sent)[pipelines.stage == 0]
    return float(np.nan_to_num(finite_median(np.abs(passes - nanmedian(passes, axis=1)[:, None]))))


def _alike(times: Floats, blur_ns: float) -> Ints:
    """Number rows, shape (rows, steps), so that those whose times agree have the same number."""
    apart = np.median(np.abs(times[:, None, :] - times[None, :, :]), axis=2)
    near = max(LOCKSTEP * apart.max(), blur_ns)
    first = np.full(times.shape[0], -1)
    for row in range(first.size):
        if first[row] < 0:
            first[(apart[row] <= near) & (first < 0)] = row
    return np.unique(first, return_inverse=True)[1]


def usual_rings(topology: Topology, phases: Phases, pipelines: Pipelines) -> int:
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


def sharing_rings(topology: Topology, phases: Phases, pipelines: Pipelines) -> list[Replicas]:
    """The NICs of every server and stage as replicas: one collective goes over all their rings."""
    places = np.column_stack((topology.servers[phases.endpoints], pipelines.stage))
    return [
        Replicas(rows, np.arange(rows.size), True)
        for place in np.unique(places[phases.dp_group >= 0], axis=0)
        for rows in [np.flatnonzero((places == place).all(axis=1))]
    ]


def whole_groups(topology: Topology, phases: Phases, replicas: Sequence[Replicas]) -> Ints:
    """The data-parallel groups, with the rings joined that NVLink joins; -1 stays.

    Nothing is joined unless all groups have one size after it.
    """
    group = phases.dp_group
    edges = [edge for one in replicas if one.shown for edge in _joins(topology, phases, one)]
    if not edges:
        return group
    src, dst = np.array(edges, np.int32).T
    label = components(src, dst, int(group.max()) + 1)
    joined = np.where(group >= 0, label[np.maximum(group, 0)], -1)
    sizes = np.bincount(joined[joined >= 0])
    if np.unique(sizes[sizes > 0]).size > 1:
        return group
    lowest = np.full(int(joined.max()) + 1, group.max())
    np.minimum.at(lowest, joined[joined >= 0], group[joined >= 0])
    number = np.unique(lowest, return_inverse=True)[1]
    return np.where(joined >= 0, number[np.maximum(joined, 0)], -1)


def with_common_ends(topology: Topology, phases: Phases, groups: Ints) -> Phases:
    """``phases`` with data-parallel traffic that ends at once for all NICs of a server and group.

    ``groups`` are those of :func:`whole_groups`. A collective that goes over several NICs of a
    server has ended for its ranks when the last of them is done.
    """
    if np.array_equal(groups, phases.dp_group):
        return phases
    end_ns = phases.moments["dp"].end_ns.copy()
    servers = topology.servers[phases.endpoints]
    cells = np.column_stack((servers, groups))
    for cell in np.unique(cells[groups >= 0], axis=0):
        own = np.flatnonzero((cells == cell).all(axis=1))
        end_ns[own] = np.where(end_ns[own] == MISSING, MISSING, end_ns[own].max(axis=0))
    moments = phases.moments | {"dp": replace(phases.moments["dp"], end_ns=end_ns)}
    return replace(phases, moments=moments)


def _joins(topology: Topology, phases: Phases, one: Replicas) -> list[tuple[int, int]]:
    """Pairs of data-parallel groups that pass through the same place of two replicas."""
    sizes = np.bincount(one.number)
    if sizes.size < 2 or np.unique(sizes).size > 1:
        return []
    nics = topology.positions[phases.endpoints[one.rows]]
    if (nics < 0).any():
        return []
    order = np.lexsort((nics, one.number))
    groups = phases.dp_group[one.rows[order]].reshape(sizes.size, -1)
    if (groups < 0).any():
        return []
    return [(int(a), int(b)) for later in groups[1:] for a, b in zip(groups[0], later, strict=True)]
