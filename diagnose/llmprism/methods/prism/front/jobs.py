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
from llmprism.methods.prism.front.parameters import LOCKED
from llmprism.methods.prism.front.segment.balance import Balance, balance_of
from llmprism.methods.prism.front.segment.borders import Borders, find_borders
from llmprism.methods.prism.front.segment.levels import levels_of
from llmprism.methods.prism.front.segment.vote import Election, elect
from llmprism.numerics.arrays import Bools, Codes, Floats


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
    """

    lanes: list[int]
    endpoints: Codes
    servers: Codes
    borders: Borders | None = None
    election: Election | None = None
    balances: dict[int, Balance] = field(default_factory=dict)


def find_parts(seen: Observation, topology: Topology) -> list[Part]:
    """Components of lanes and their steps."""
    lanes = seen.lanes
    back = {(lane.src, lane.dst): i for i, lane in enumerate(lanes)}
    balances: dict[int, Balance] = {}
    for i, lane in enumerate(lanes):
        other = back.get((lane.dst, lane.src), -1)
        if other > i and (balance := balance_of(lane, lanes[other])) is not None:
            balances[i] = balances[other] = balance
    levels = {i: levels_of(lane, balances.get(i)) for i, lane in enumerate(lanes)}
    parts = []
    for members in _components(lanes, len(topology.addresses)):
        ends = np.unique([[lanes[i].src, lanes[i].dst] for i in members]).astype(np.int32)
        part = Part(members, ends, np.unique(topology.servers[ends]))
        part.balances = {i: balances[i] for i in members if i in balances}
        part.election = elect(lanes, members, levels)
        if part.election is not None:
            part.borders = find_borders(lanes, members, part.election, part.balances)
        parts.append(part)
    return parts


def _components(lanes: list[Lane], endpoints: int) -> list[list[int]]:
    src, dst = [lane.src for lane in lanes], [lane.dst for lane in lanes]
    graph = coo_matrix((np.ones(len(lanes)), (src, dst)), (endpoints, endpoints))
    _, part = connected_components(graph, directed=False)
    members: dict[int, list[int]] = {}
    for i, end in enumerate(src):
        members.setdefault(int(part[end]), []).append(i)
    return list(members.values())


def join_parts(parts: list[Part]) -> list[Part]:
    """Join the parts of each job."""
    count = len(parts)
    same = np.eye(count, dtype=bool)
    for i in range(count):
        for j in range(i):
            same[i, j] = _are_one(parts[i], parts[j])
    _, job = connected_components(coo_matrix(same), directed=False)
    return [_joined([parts[i] for i in np.flatnonzero(job == j)]) for j in range(job.max() + 1)]


def _joined(parts: list[Part]) -> Part:
    """One part of several; its borders are those of the part whose vote is clearest."""
    if len(parts) == 1:
        return parts[0]
    lead = max(parts, key=lambda part: (part.borders is not None, _clarity(part)))
    return Part(
        [lane for part in parts for lane in part.lanes],
        np.unique(np.concatenate([part.endpoints for part in parts])),
        np.unique(np.concatenate([part.servers for part in parts])),
        lead.borders,
        lead.election,
        {i: balance for part in parts for i, balance in part.balances.items()},
    )


def _clarity(part: Part) -> float:
    if part.election is None:
        return 0.0
    return max(lv.quality**3 * lv.contrast for lv in part.election.levels.values())


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
    return _locked(a, b, 0.75 if common else 0.95)


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
    following: Floats = np.searchsorted(b.high, a.low - slack)
    met: Bools = np.append(b.low, np.inf)[following] <= a.high + slack
    return met
