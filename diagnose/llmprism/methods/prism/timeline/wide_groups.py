"""Tensor-parallel groups over several servers that use several NICs of each.

Such a group is larger than a server, so all its NICs there belong to it: each has a ring of its
own across servers, and all rings move at the same time, since every collective uses all of them.
Groups that only look alike, one for each NIC, drift apart by the noise of their computing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from llmprism.io.topology import Topology
from llmprism.methods.prism.parameters import MOSTLY, SMALL
from llmprism.methods.prism.phases.phases import Hidden, Phases
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Ints, grouped
from llmprism.numerics.graph import components


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
