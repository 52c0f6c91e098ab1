"""Jobs: components of lanes whose borders are locked in phase.

A component is what lanes connect. Tensor parallelism inside servers, and NICs of their own rails,
leave several components to one job. Their steps begin and end together for the whole recording,
while those of two jobs walk apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from llmprism.io.topology import Topology
from llmprism.methods.prism.front.observe.lanes import Lane, Observation
from llmprism.methods.prism.front.parameters import (
    ACTIVE,
    LOCKED,
    LOCKED_APART,
    LOCKED_SHARE,
    SUBSTANTIAL,
)
from llmprism.methods.prism.front.segment.balance import Balance, balance_of
from llmprism.methods.prism.front.segment.borders import Borders, find_borders
from llmprism.methods.prism.front.segment.levels import Level, levels_of
from llmprism.methods.prism.front.segment.programme import refine
from llmprism.methods.prism.front.segment.vote import Election, elect
from llmprism.numerics.arrays import Bools, Codes


@dataclass
class Part:
    """A component of lanes, or several that were found to be one job.

    Attributes
    ----------
    lanes : indices of its lanes.
    endpoints : codes of its NICs, ascending.
    servers : codes of their servers, ascending.
    borders : windows of the borders of its steps; None if nothing repeats.
    election : the vote for its number of steps.
    balances : bytes under way of its two-way lanes.
    levels : levels of each of its lanes.
    """

    lanes: list[int]
    endpoints: Codes
    servers: Codes
    borders: Borders | None = None
    election: Election | None = None
    balances: dict[int, Balance] = field(default_factory=dict)
    levels: dict[int, list[Level]] = field(default_factory=dict)


def find_parts(seen: Observation, topology: Topology) -> list[Part]:
    """Components of lanes and their steps, without what takes no part in the steps."""
    lanes = seen.lanes
    balances = _balances(lanes)
    levels = {i: levels_of(lane, balances.get(i)) for i, lane in enumerate(lanes)}
    regular = list(range(len(lanes)))
    for _ in range(2):
        parts = [
            _part(members, lanes, levels, balances, topology)
            for members in _components(lanes, regular, len(topology.addresses))
        ]
        kept = [lane for part in parts for lane in _taking_part(part, lanes)]
        if len(kept) == len(regular):
            break
        regular = kept
    return _substantial(parts, lanes)


def _part(
    members: list[int],
    lanes: list[Lane],
    levels: dict[int, list[Level]],
    balances: dict[int, Balance],
    topology: Topology,
) -> Part:
    ends = np.unique([[lanes[i].src, lanes[i].dst] for i in members]).astype(np.int32)
    part = Part(members, ends, np.unique(topology.servers[ends]))
    part.balances = {i: balances[i] for i in members if i in balances}
    part.levels = {i: levels[i] for i in members}
    part.election = elect(lanes, members, levels, part.balances)
    if part.election is not None:
        part.election = refine(lanes, members, part.election, part.balances)
        part.borders = find_borders(lanes, members, part.election, part.balances)
    return part


def _balances(lanes: list[Lane]) -> dict[int, Balance]:
    """Bytes under way of each lane that has one in the other direction."""
    back = {(lane.src, lane.dst): i for i, lane in enumerate(lanes)}
    balances: dict[int, Balance] = {}
    for i, lane in enumerate(lanes):
        other = back.get((lane.dst, lane.src), -1)
        if other > i and (balance := balance_of(lane, lanes[other])) is not None:
            balances[i] = balances[other] = balance
    return balances


def _taking_part(part: Part, lanes: list[Lane]) -> list[int]:
    """Lanes of a part that have traffic in most of its steps."""
    if part.borders is None:
        return part.lanes
    edges = np.concatenate(([-np.inf], part.borders.middle, [np.inf]))
    kept = []
    for lane in part.lanes:
        sent = np.diff(lanes[lane].sent[np.searchsorted(lanes[lane].start, edges)])
        if np.mean(sent > 0.5 * np.median(sent[sent > 0])) >= ACTIVE:
            kept.append(lane)
    return kept


def _substantial(parts: list[Part], lanes: list[Lane]) -> list[Part]:
    """Parts that carry as much for each NIC as training does."""
    rate = [sum(lanes[i].bytes for i in part.lanes) / part.endpoints.size for part in parts]
    return [part for part, own in zip(parts, rate, strict=True) if own >= SUBSTANTIAL * max(rate)]


def _components(lanes: list[Lane], among: list[int], endpoints: int) -> list[list[int]]:
    """Lanes that share endpoints."""
    src = np.array([lanes[i].src for i in among])
    dst = np.array([lanes[i].dst for i in among])
    graph = coo_matrix((np.ones(len(among)), (src, dst)), (endpoints, endpoints))
    _, part = connected_components(graph, directed=False)
    members: dict[int, list[int]] = {}
    for lane, end in zip(among, src, strict=True):
        members.setdefault(int(part[end]), []).append(lane)
    return list(members.values())


def join_parts(parts: list[Part], lanes: list[Lane]) -> list[Part]:
    """Join the parts of each job."""
    count = len(parts)
    same = np.eye(count, dtype=bool)
    agreed: dict[int, int] = {}
    for i in range(count):
        for j in range(i):
            same[i, j] = _are_one(parts[i], parts[j])
            if not same[i, j] and (common := _agreement(parts[i], parts[j], lanes)):
                same[i, j] = True
                agreed[i] = agreed[j] = common
    _, job = connected_components(coo_matrix(same), directed=False)
    joined = []
    for number in range(int(job.max(initial=-1)) + 1):
        group = np.flatnonzero(job == number).tolist()
        steps: int | None = next((agreed[i] for i in group if i in agreed), None)
        joined.append(_joined([parts[i] for i in group], lanes, steps))
    return joined


def _agreement(part: Part, other: Part, lanes: list[Lane]) -> int:
    """The number of steps with which parts on common servers are in phase; 0 if there is none."""
    if part.borders is None or other.borders is None:
        return 0
    common = np.intersect1d(part.servers, other.servers).size
    longest = max(part.borders.period_ns, other.borders.period_ns)
    apart = max(
        abs(part.borders.begin - other.borders.begin), abs(part.borders.end - other.borders.end)
    )
    if not common or apart > 2 * longest:
        return 0
    both = elect(
        lanes,
        part.lanes + other.lanes,
        part.levels | other.levels,
        part.balances | other.balances,
    )
    numbers = {part.borders.steps, other.borders.steps, both.steps if both else 0} - {0}
    inside = common == min(part.servers.size, other.servers.size)
    least = LOCKED_SHARE if inside else LOCKED_APART
    return next((n for n in sorted(numbers) if _locked_at(part, other, lanes, n, least)), 0)


def _locked_at(part: Part, other: Part, lanes: list[Lane], steps: int, least: float) -> bool:
    """Whether both parts have about ``steps`` steps, which are in phase."""
    borders = []
    for each in (part, other):
        own = elect(lanes, each.lanes, each.levels, each.balances, steps)
        if own is None:
            return False
        borders.append(find_borders(lanes, each.lanes, own, each.balances))
    return _locked(borders[0], borders[1], least)


def _joined(parts: list[Part], lanes: list[Lane], steps: int | None) -> Part:
    """One part of several, with steps that all vote for."""
    if len(parts) == 1:
        return parts[0]
    members = [lane for part in parts for lane in part.lanes]
    joined = Part(
        members,
        np.unique(np.concatenate([part.endpoints for part in parts])),
        np.unique(np.concatenate([part.servers for part in parts])),
        balances={i: balance for part in parts for i, balance in part.balances.items()},
        levels={i: levels for part in parts for i, levels in part.levels.items()},
    )
    joined.election = elect(lanes, members, joined.levels, joined.balances, steps)
    if joined.election is not None:
        joined.election = refine(lanes, members, joined.election, joined.balances)
        joined.borders = find_borders(lanes, members, joined.election, joined.balances)
    return joined


def _are_one(part: Part, other: Part) -> bool:
    """Whether two parts are of one job."""
    common = np.intersect1d(part.servers, other.servers).size
    share = common / min(part.servers.size, other.servers.size)
    a, b = part.borders, other.borders
    if a is None or b is None:
        return share == 1.0
    if share >= 0.5 and abs(a.steps / b.steps - 1) <= 0.02:
        period = max(a.period_ns, b.period_ns)
        if abs(a.begin - b.begin) <= period and abs(a.end - b.end) <= period:
            return True
    return _locked(a, b, LOCKED_SHARE if common else LOCKED_APART)


def _locked(a: Borders, b: Borders, least: float) -> bool:
    """Whether the borders of two parts stay in phase."""
    period = min(a.period_ns, b.period_ns)
    if abs(a.steps / b.steps - 1) > 0.1 or a.steps < 3:
        return False
    if min(_met(a, b, 0.02 * period).mean(), _met(b, a, 0.02 * period).mean()) < least:
        return False
    near = np.argmin(np.abs(a.middle[:, None] - b.middle[None, :]), axis=1)
    return all(
        float(np.ptp(np.quantile(edge, (0.2, 0.8)))) <= LOCKED * period
        for edge in (a.low - b.low[near], a.high - b.high[near])
    )


def _met(a: Borders, b: Borders, slack: float) -> Bools:
    """Whether each window of ``a`` meets one of ``b``."""
    following = np.searchsorted(b.high, a.low - slack)
    met: Bools = np.append(b.low, np.inf)[following] <= a.high + slack
    return met
