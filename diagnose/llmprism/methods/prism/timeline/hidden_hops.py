"""Rings of an exchange that leave a server by another NIC than the one by which they entered it.

Where a context- or tensor-parallel group has several ranks in each of several servers, most hops of
its ring run over NVLink. The others lead from the last rank of one server to the first rank of the
next one, so no endpoint both sends and receives, and nothing circulates between endpoints. It does
between servers: as many such connections enter a server as leave it. They are taken to continue
each other in the order of their NICs, as ranks are numbered.

Members of a context-parallel group reduce gradients together, those of a tensor-parallel group do
not. NICs between those by which a ring enters and leaves a server belong to members, too.

Tensor-parallel groups over several servers may use several NICs of each. Such a group is larger
than a server, so all its NICs there belong to it: each has a ring of its own across servers, and
all rings move at the same time, since every collective uses all of them. Groups that only look
alike, one for each NIC, drift apart by the noise of their computing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology, in_nic_order
from llmprism.methods.prism.classes.classes import TrafficClass, alike, traffic_of
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import MOSTLY, SMALL, SURE
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Hidden, Phases
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, grouped
from llmprism.numerics.graph import components

STEADY, OFTEN = 0.25, 0.8  # difference from the usual volume of a step, and share of such steps


@dataclass(frozen=True)
class _Hops:
    """Connections of the rings of one exchange.

    Attributes
    ----------
    own : their numbers.
    ring : number of the ring of each.
    size : members of a ring, in all servers.
    rings : rings that pass through the same server.
    """

    own: Ints
    ring: Ints
    size: int
    rings: int


def with_hidden_hops(
    flows: FlowTable, topology: Topology, connections: Connections, phases: Phases
) -> Phases:
    """``phases`` with the rings that close through servers, if there are any."""
    left = _left(topology, connections, phases)
    classes, hidden = list(phases.classes), dict(phases.hidden)
    for own in alike(connections, left):
        hops = _rings(topology, connections, phases, own)
        if hops is None:
            continue
        traffic = traffic_of(flows, connections, hops.own)
        step = _steps(flows, phases, traffic.row)
        one = KindOf(TrafficClass(hops.own, False, traffic), "", SURE, step)
        if not _repeats(one.volumes(connections, phases.count)):
            continue
        kind = _kind(connections, phases, hops)
        if kind is not None and _moves_in_passes(flows, phases, one):
            classes.append(replace(one, kind=kind))
            hidden[kind] = Hidden(hops.size, hops.rings)
    return replace(phases, classes=tuple(classes), hidden=hidden) if hidden else phases


def _left(topology: Topology, connections: Connections, phases: Phases) -> Ints:
    """Connections that carry data between servers of the job and belong to no class."""
    inside = np.isin(connections.src, phases.endpoints) & np.isin(connections.dst, phases.endpoints)
    inside &= connections.carries
    inside &= topology.servers[connections.src] != topology.servers[connections.dst]
    for one in phases.classes:
        inside[one.connections] = False
    return np.flatnonzero(inside)


def _rings(topology: Topology, connections: Connections, phases: Phases, own: Ints) -> _Hops | None:
    """The rings that connections make with hops inside servers; None if they make none."""
    src, dst = connections.src[own], connections.dst[own]
    if np.unique(src).size < own.size or np.unique(dst).size < own.size:
        return None
    joins = list(_joins(topology, src, dst))
    if any(into.size != out.size for into, out in joins) or len(joins) < 2:
        return None
    into, out = (np.concatenate(ends) for ends in zip(*joins, strict=True))
    if (into == out).all():
        return None
    label = components(
        np.concatenate((src, into)), np.concatenate((dst, out)), len(topology.addresses)
    )
    ring = np.unique(label[src], return_inverse=True)[1]
    sizes = np.bincount(ring)
    in_server = [_between(topology, phases, *each) for each in joins]
    if sizes.min() < 2 or sizes.min() != sizes.max() or len({*in_server, 0}) != 2:
        return None
    return _Hops(own, ring, int(sizes[0]) * in_server[0], joins[0][0].size)


def _joins(topology: Topology, src: Codes, dst: Codes) -> Iterator[tuple[Codes, Codes]]:
    """For each server, the NICs by which rings enter it, and those by which they leave it."""
    servers = topology.servers
    for server in np.unique(servers[np.concatenate((src, dst))]).tolist():
        into, out = (ends[servers[ends] == server] for ends in (dst, src))
        yield in_nic_order(topology, into), in_nic_order(topology, out)


def _between(topology: Topology, phases: Phases, into: Codes, out: Codes) -> int:
    """Members of a ring in one server: its NICs of the job from the first to the last one.

    They are shared among the rings; 0 if that is not possible.
    """
    home = topology.servers[phases.endpoints] == topology.servers[into[0]]
    ordered = in_nic_order(topology, phases.endpoints[home]).tolist()
    places = [ordered.index(end) for end in (*into.tolist(), *out.tolist())]
    count = max(places) - min(places) + 1
    return count // into.size if count % into.size == 0 else 0


def _steps(flows: FlowTable, phases: Phases, rows: Codes) -> Codes:
    """Step of each record: the one whose data-parallel traffic is the next to end at its sender."""
    place = np.searchsorted(phases.endpoints, flows.src[rows])
    by, ends = grouped(place, phases.endpoints.size), phases.moments["dp"].end_ns
    step = np.full(rows.size, -1, np.int32)
    for one in np.flatnonzero(np.diff(by.offsets)).tolist():
        own, known = by.rows(one), ends[one] != MISSING
        numbers = np.append(np.flatnonzero(known), -1)
        step[own] = numbers[np.searchsorted(ends[one][known], flows.start_ns[rows[own]])]
    return step


def _repeats(volumes: Floats) -> bool:
    """Whether connections move as much in most steps; shape (connections, steps)."""
    usual = np.median(volumes, axis=1, keepdims=True)
    near: Bools = np.abs(volumes - usual) <= STEADY * usual
    return bool(usual.min() > 0 and near.mean() >= OFTEN)


def _kind(connections: Connections, phases: Phases, hops: _Hops) -> str | None:
    """Whether members of a ring reduce gradients together (``cp``) or not (``tp``).

    None if nobody knows with whom they do.
    """
    shared = []
    for ring in range(int(hops.ring.max()) + 1):
        own = hops.own[hops.ring == ring]
        ends = np.unique(np.concatenate((connections.src[own], connections.dst[own])))
        group = phases.dp_group[np.searchsorted(phases.endpoints, ends)]
        if (group < 0).any():
            return None
        shared.append(int(np.unique(group, return_counts=True)[1].max()))
    return "cp" if min(shared) > 1 else "tp" if max(shared) == 1 else None


def _moves_in_passes(flows: FlowTable, phases: Phases, one: KindOf) -> bool:
    """Whether traffic begins before the gradients of its sender in most steps."""
    known = one.step >= 0
    rows = one.traffic.row[known]
    place, step = np.searchsorted(phases.endpoints, flows.src[rows]), one.step[known]
    first = np.full(phases.moments["dp"].start_ns.shape, np.iinfo(np.int64).max)
    np.minimum.at(first, (place, step), flows.start_ns[rows])
    begun = phases.moments["dp"].start_ns
    shown = (first < np.iinfo(np.int64).max) & (begun != MISSING)
    return bool(shown.any() and (first[shown] < begun[shown]).mean() >= OFTEN)


def with_wide_groups(topology: Topology, connections: Connections, phases: Phases) -> Phases:
    """``phases`` with the size of tensor-parallel groups that use several NICs of a server."""
    own = [one.one for one in phases.classes if one.kind == "tp"]
    if not own or "tp" in phases.hidden:
        return phases
    chosen = np.concatenate([one.connections for one in own])
    src, dst = connections.src[chosen], connections.dst[chosen]
    ring_of = components(src, dst, len(topology.addresses))
    sizes = np.bincount(ring_of[np.unique(src)])
    sender = np.concatenate([connections.src[connections.of_row[one.traffic.row]] for one in own])
    start = np.concatenate([one.traffic.start_ns for one in own])
    by = grouped(sender, len(topology.addresses))
    begins = {end: np.sort(start[by.rows(end)]) for end in np.unique(src).tolist()}
    groups = _groups(topology, ring_of, begins)
    widths = {len(rings) for rings in groups}
    apart = sum(widths) * len(groups) == len(frozenset().union(*groups))
    if len(widths) > 1 or widths == {1} or not apart or np.unique(sizes[sizes > 0]).size > 1:
        return phases
    width = widths.pop()
    return replace(phases, hidden={**phases.hidden, "tp": Hidden(int(sizes.max()) * width, width)})


def _groups(topology: Topology, ring_of: Codes, begins: Mapping[int, Ints]) -> set[frozenset[int]]:
    """The rings that move at the same time, in any server; ``begins`` [ns] by endpoint."""
    found = set()
    homes = {end: int(topology.servers[end]) for end in begins}
    for server in sorted(set(homes.values())):
        here = [end for end in begins if homes[end] == server]
        number = _at_once([begins[end] for end in here])
        for one in range(int(number.max()) + 1):
            inside = np.array(here)[number == one]
            found.add(frozenset(ring_of[inside].tolist()))
    return found


def _at_once(begins: list[Ints]) -> Ints:
    """Number NICs, whose messages begin at ``begins`` [ns], by those that begin at once."""
    number = np.full(len(begins), -1)
    for i, one in enumerate(begins):
        if number[i] < 0:
            same = [
                j for j, other in enumerate(begins) if number[j] < 0 and _same_times(one, other)
            ]
            number[[i, *same]] = number.max() + 1
    return number


def _same_times(one: Ints, other: Ints) -> bool:
    """Whether most messages of two NICs begin at the same times."""
    if min(one.size, other.size) < 2 or not MOSTLY <= other.size / one.size <= 1 / MOSTLY:
        return False
    at = np.searchsorted(other, one).clip(1, max(other.size - 1, 1))
    near = np.minimum(np.abs(other[at - 1] - one), np.abs(other[at.clip(max=other.size - 1)] - one))
    return bool((near <= SMALL * np.median(np.diff(one))).mean() >= MOSTLY)
