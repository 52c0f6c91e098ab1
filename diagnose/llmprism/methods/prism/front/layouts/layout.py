"""The layout of a job: kinds of its lanes, pipelines, tensor groups and replicas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from llmprism.io.topology import Topology
from llmprism.methods.prism.front.layouts.chains import (
    Chain,
    directed,
    find_chains,
    linked,
    lockstep,
)
from llmprism.methods.prism.front.layouts.kinds import classify
from llmprism.methods.prism.front.layouts.rings import find_replicas, replicas_of_stages
from llmprism.methods.prism.front.observe.exporter import Exporter
from llmprism.methods.prism.front.parameters import EXCHANGES, PRIOR_ALONE
from llmprism.methods.prism.front.segment.borders import Borders
from llmprism.methods.prism.front.segment.cutting import CutLane
from llmprism.numerics.arrays import Codes
from prism_common.kinds import DP


@dataclass(frozen=True)
class Layout:
    """The layout of a job; -1 for what records do not show.

    Attributes
    ----------
    dp, pp, tp, ep, cp : sizes.
    kinds : kind of each lane.
    chains : pipelines, first stage to last.
    groups : members of each DP group.
    confidence : that dp and pp are right.
    """

    dp: int
    pp: int
    tp: int
    ep: int
    cp: int
    kinds: list[str]
    chains: list[Chain]
    groups: list[list[int]]
    confidence: float


def find_layout(
    cut: list[CutLane], endpoints: Codes, borders: Borders, exporter: Exporter, topology: Topology
) -> Layout:
    """The most probable layout of a job whose lanes are ``cut``."""
    kinds = classify(cut, borders, exporter)
    gpus = _gpus_per_nic(endpoints, topology)
    chains = directed(find_chains(cut, kinds), cut, topology)
    if DP not in kinds and len(chains) > 1:
        chains = linked(chains, cut, topology)
    if not chains:
        return _replicas(cut, endpoints, kinds, topology)
    return _pipelines(cut, kinds, chains, borders, exporter, topology, gpus)


def _gpus_per_nic(endpoints: Codes, topology: Topology) -> int:
    counts = [len(topology.endpoints[e].gpus or (0,)) for e in endpoints]
    return max(1, int(np.median(counts)))


def _pipelines(
    cut: list[CutLane],
    kinds: list[str],
    chains: list[Chain],
    borders: Borders,
    exporter: Exporter,
    topology: Topology,
    gpus: int,
) -> Layout:
    lengths, often = np.unique([c.stages for c in chains], return_counts=True)
    stages = int(lengths[np.argmax(often)])
    tensor = lockstep(chains, cut, borders, exporter, topology)
    tp = int(np.median([len(group) for group in tensor]))
    groups: dict[tuple[int, int], list[int]] = {}
    for group in tensor:
        ordered = sorted(group, key=lambda m: chains[m].ends)
        for position, m in enumerate(ordered):
            for stage, end in enumerate(chains[m].ends):
                groups.setdefault((stage, position), []).append(end)
    members = [sorted(set(ends)) for ends in groups.values() if len(set(ends)) > 1]
    certain = float(np.mean([c.stages == stages and c.certain for c in chains]))
    data = [c for c, kind in zip(cut, kinds, strict=True) if kind == DP]
    if any(c.hidden for c in chains) or not _confirmed(data, members):
        certain = PRIOR_ALONE * certain
    if _is_mesh(data):
        certain = EXCHANGES * certain
    dp, sure = replicas_of_stages(data, max(1, len(chains) // tp))
    certain = min(certain, sure) if dp * tp > len(chains) else certain
    return Layout(dp, stages, tp * gpus, -1, -1, kinds, chains, members, 0.9 * certain)


def _replicas(cut: list[CutLane], endpoints: Codes, kinds: list[str], topology: Topology) -> Layout:
    data = [c for c, kind in zip(cut, kinds, strict=True) if kind == DP]
    parts = _connected([(c.lane.src, c.lane.dst) for c in data])
    ring = find_replicas(data, endpoints, topology)
    members, tp, sure = ring.members, ring.tensor, ring.posterior
    return Layout(members, 1, tp, -1, -1, kinds, [], _split(endpoints, tp, parts, topology), sure)


def _confirmed(data: list[CutLane], groups: list[list[int]]) -> bool:
    """Whether data-parallel traffic stays inside the groups that the pipelines imply."""
    group_of = {end: number for number, ends in enumerate(groups) for end in ends}
    inside = [group_of.get(c.lane.src, -1) == group_of.get(c.lane.dst, -2) for c in data]
    return bool(inside) and all(inside)


def _is_mesh(data: list[CutLane]) -> bool:
    """Whether most members send to several others, as exchanges do and rings do not."""
    goals: dict[int, set[int]] = {}
    for c in data:
        goals.setdefault(c.lane.src, set()).add(c.lane.dst)
    several = [len(ends) > 1 for ends in goals.values()]
    return bool(several) and 2 * sum(several) > len(several)


def _split(
    endpoints: Codes, count: int, parts: list[list[int]], topology: Topology
) -> list[list[int]]:
    """NICs of each of ``count`` DP groups: by place in the server."""
    if count == 1:
        return [[int(e) for e in endpoints]]
    if len(parts) == count:
        return parts
    position: dict[int, list[int]] = {}
    for end in endpoints:
        position.setdefault(int(topology.servers[end]), []).append(int(end))
    groups: list[list[int]] = [[] for _ in range(count)]
    for ends in position.values():
        for i, end in enumerate(sorted(ends)):
            groups[i % count].append(end)
    return [group for group in groups if len(group) > 1]


def _connected(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """Connected components of NICs."""
    if not pairs:
        return []
    ends, codes = np.unique(np.array(pairs), return_inverse=True)
    codes = codes.reshape(-1, 2)
    graph = coo_matrix((np.ones(len(codes)), codes.T), (ends.size, ends.size))
    count, part = connected_components(graph, directed=False)
    return [[int(e) for e in ends[part == p]] for p in range(count)]
