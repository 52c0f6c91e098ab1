"""Pipelines: chains of stages, their direction, and chains that move in lockstep."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmprism.io.topology import Topology
from llmprism.methods.prism.front.observe.exporter import Exporter
from llmprism.methods.prism.front.parameters import (
    TENSOR_JUMP,
)
from llmprism.methods.prism.front.segment.borders import Borders
from llmprism.methods.prism.front.segment.cutting import CutLane
from llmprism.methods.prism.front.segment.known import median_known
from llmprism.numerics.arrays import Bools, Floats
from prism_common.kinds import PP


@dataclass(frozen=True)
class Chain:
    """One pipeline.

    Attributes
    ----------
    ends : endpoint codes, first stage to last.
    certain : whether the order is known.
    hidden : stages whose traffic stays inside servers.
    """

    ends: tuple[int, ...]
    certain: bool
    hidden: int = 0

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.ends) + self.hidden


def find_chains(cut: list[CutLane], kinds: list[str]) -> list[Chain]:
    """The pipelines of a job."""
    edges: dict[tuple[int, int], CutLane] = {
        (c.lane.src, c.lane.dst): c for c, kind in zip(cut, kinds, strict=True) if kind == PP
    }
    near: dict[int, list[int]] = {}
    for src, dst in edges:
        near.setdefault(src, []).append(dst)
        near.setdefault(dst, []).append(src)
    near = {end: sorted(set(others)) for end, others in near.items()}
    chains, seen = [], set()
    for start in sorted(near):
        if start in seen:
            continue
        members = _reach(start, near)
        seen |= members
        chains.append(_walk(members, near, edges))
    return chains


def _reach(start: int, near: dict[int, list[int]]) -> set[int]:
    found, ahead = {start}, [start]
    while ahead:
        for end in near[ahead.pop()]:
            if end not in found:
                found.add(end)
                ahead.append(end)
    return found


def _walk(
    members: set[int], near: dict[int, list[int]], edges: dict[tuple[int, int], CutLane]
) -> Chain:
    """The order of one connected set of stages."""
    links = {end: set(near[end]) for end in members}
    if all(len(others) == 2 for others in links.values()) and len(members) > 2:
        pairs = [(a, b) for a in members for b in links[a] if a < b]
        a, b = min(pairs, key=lambda p: _traffic(p, edges))
        links[a].discard(b)
        links[b].discard(a)
    tips = sorted(end for end, others in links.items() if len(others) == 1)
    if len(tips) != 2 or any(len(others) > 2 for others in links.values()):
        return Chain(tuple(sorted(members)), False)
    path = [tips[0]]
    while len(path) < len(members):
        path.append(next(end for end in links[path[-1]] if end not in path[-2:]))
    return Chain(tuple(path), True)


def _traffic(pair: tuple[int, int], edges: dict[tuple[int, int], CutLane]) -> float:
    a, b = pair
    return sum(float(np.median(edges[e].bytes)) for e in ((a, b), (b, a)) if e in edges)


def directed(chains: list[Chain], cut: list[CutLane], topology: Topology) -> list[Chain]:
    """``chains`` from the first stage to the last: activations lead; parallel chains agree."""
    lanes = {(c.lane.src, c.lane.dst): c for c in cut}
    votes: dict[tuple[int, ...], float] = {}
    for chain in chains:
        places = tuple(int(topology.servers[end]) for end in chain.ends)
        lead = _leads(chain, lanes)
        votes[places] = votes.get(places, 0.0) + lead
        votes[places[::-1]] = votes.get(places[::-1], 0.0) - lead
    found = []
    for chain in chains:
        places = tuple(int(topology.servers[end]) for end in chain.ends)
        forward = votes[places] >= 0 if places != places[::-1] else _leads(chain, lanes) >= 0
        found.append(chain if forward else Chain(chain.ends[::-1], chain.certain))
    return found


def _leads(chain: Chain, lanes: dict[tuple[int, int], CutLane]) -> float:
    """Share of steps in which the direction along ``chain`` begins first, less the others."""
    total = 0.0
    for a, b in pairwise(chain.ends):
        there, back = lanes.get((a, b)), lanes.get((b, a))
        if there is None or back is None:
            continue
        lead = back.first() - there.first()
        lead = lead[~np.isnan(lead)]
        total += float(np.sign(lead).mean()) if lead.size else 0.0
    return total


def linked(chains: list[Chain], cut: list[CutLane], topology: Topology) -> list[Chain]:
    """Chains joined through servers that hold several stages.

    Without data-parallel traffic between servers, replicas lie inside servers, and a chain that
    ends in a server goes on with one that begins there. What closes a cycle leads from the last
    stage to the first: it carries least.
    """
    after = _following(chains, topology)
    if not after:
        return chains
    bytes_of = {(c.lane.src, c.lane.dst): c.lane.bytes for c in cut}
    size = [sum(bytes_of.get(e, 0.0) for e in pairwise(c.ends)) for c in chains]
    closing = {m for cycle in _closed_cycles(after) for m in [min(cycle, key=lambda i: size[i])]}
    _, parallel = np.unique([str(_places(c, topology)) for c in chains], return_counts=True)
    width = int(parallel.max())
    starts = set(range(len(chains))) - set(after.values()) - closing
    before = {after[i]: i for i in closing}
    found = []
    for start in sorted((starts | before.keys()) - closing):
        path = [start]
        while path[-1] in after and after[path[-1]] not in {*path, *closing}:
            path.append(after[path[-1]])
        parts = [chains[i] for i in path]
        ends = tuple(end for part in parts for end in part.ends)
        if start in before:
            last = chains[before[start]].ends
            ends = (last[-1], *ends, last[0])
        certain = all(part.certain for part in parts)
        found.append(Chain(ends, certain, _hidden(parts, width, start in before, topology)))
    return found


def _places(chain: Chain, topology: Topology) -> tuple[int, ...]:
    return tuple(int(topology.servers[end]) for end in chain.ends)


def _following(chains: list[Chain], topology: Topology) -> dict[int, int]:
    """The chain that goes on in the server in which each chain ends."""
    heads: dict[int, list[int]] = {}
    tails: dict[int, list[int]] = {}
    for i, chain in enumerate(chains):
        heads.setdefault(int(topology.servers[chain.ends[0]]), []).append(i)
        tails.setdefault(int(topology.servers[chain.ends[-1]]), []).append(i)
    after: dict[int, int] = {}
    for server, ending in tails.items():
        going = heads.get(server, [])
        ending = sorted(ending, key=lambda i: chains[i].ends[-1])
        going = sorted(going, key=lambda i: chains[i].ends[0])
        used = {chains[i].ends[-1] for i in ending}
        if len(ending) == len(going) and not used & {chains[i].ends[0] for i in going}:
            after.update(zip(ending, going, strict=True))
    return after


def _closed_cycles(after: dict[int, int]) -> list[list[int]]:
    cycles, seen = [], set()
    for start in after:
        path, at = [], start
        while at in after and at not in seen:
            seen.add(at)
            path.append(at)
            at = after[at]
        if path and at == path[0]:
            cycles.append(path)
    return cycles


def _hidden(parts: list[Chain], width: int, closed: bool, topology: Topology) -> int:
    """Stages between chains inside servers, and before the first and after the last one."""
    place = _nic_places(topology)
    hidden = 0
    for part, following in pairwise(parts):
        hidden += max(0, abs(place[following.ends[0]] - place[part.ends[-1]]) // width - 1)
    if len(parts) > 1 and not closed:
        size = int(np.sum(topology.servers == topology.servers[parts[-1].ends[-1]]))
        hidden += place[parts[0].ends[0]] // width
        hidden += (size - 1 - place[parts[-1].ends[-1]]) // width
    return int(hidden)


def _nic_places(topology: Topology) -> list[int]:
    """Place of each NIC in its server."""
    count: dict[int, int] = {}
    places = []
    for server in topology.servers.tolist():
        places.append(count.get(server, 0))
        count[server] = places[-1] + 1
    return places


def lockstep(
    chains: list[Chain],
    cut: list[CutLane],
    borders: Borders,
    exporter: Exporter,
    topology: Topology,
) -> list[list[int]]:
    """Groups of chains that are one tensor group: on the same servers, moving in lockstep."""
    lanes = {(c.lane.src, c.lane.dst): c for c in cut}
    tuples: dict[tuple[int, ...], list[int]] = {}
    for i, chain in enumerate(chains):
        tuples.setdefault(tuple(int(topology.servers[e]) for e in chain.ends), []).append(i)
    scale = 3 * max(exporter.tick_ns, 2000.0, 1.3e-5 * borders.period_ns)
    groups = []
    for members in tuples.values():
        groups += _in_lockstep([chains[m] for m in members], members, lanes, scale)
    return groups


def _in_lockstep(
    chains: list[Chain], members: list[int], lanes: dict[tuple[int, int], CutLane], scale: float
) -> list[list[int]]:
    if len(chains) == 1:
        return [members]
    times = [_times(chain, lanes) for chain in chains]
    count = len(chains)
    apart = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            apart[i, j] = apart[j, i] = _distance(times[i], times[j])
    within = np.sort(apart[np.triu_indices(count, 1)])
    ratio = within[1:] / np.maximum(within[:-1], 1.0)
    limits = []
    if ratio.size and ratio.max() > TENSOR_JUMP:
        k = int(np.argmax(ratio))
        limits.append(float(np.sqrt(max(within[k], 1.0) * within[k + 1])))
    for limit in limits:
        groups = _closed(apart <= limit, members)
        if groups is not None:
            return groups
    together = float(np.median(within)) <= scale
    return [members] if together else [[m] for m in members]


def _closed(near: Bools, members: list[int]) -> list[list[int]] | None:
    """Groups of equal size in which all are near each other; None if there are none."""
    rows = {tuple(np.flatnonzero(row)) for row in near | np.eye(len(members), dtype=bool)}
    if len({len(row) for row in rows}) != 1 or sum(map(len, rows)) != len(members):
        return None
    return [[members[i] for i in row] for row in sorted(rows)]


def _times(chain: Chain, lanes: dict[tuple[int, int], CutLane]) -> Floats:
    """First and last times of every hop in every step, shape (features, steps)."""
    rows = []
    for a, b in pairwise(chain.ends):
        for ends in ((a, b), (b, a)):
            if ends in lanes:
                rows += [lanes[ends].first(), lanes[ends].last()]
    return np.array(rows)


def _distance(a: Floats, b: Floats) -> float:
    """Median absolute deviation over steps of the time differences of two chains [ns]."""
    if a.shape != b.shape or not a.size:
        return np.inf
    apart = a - b
    centre = median_known(apart, axis=1, keepdims=True)
    return float(median_known(median_known(np.abs(apart - centre), axis=1)))
