"""All borders of a component together, by dynamic programming over silences of its lead lane.

A threshold on silences takes a long message silence for a border, and misses a short border. The
bytes tell: a step is a fixed vector of bytes over all lanes. The cost of a step is the capped
deviation of its bytes, averaged over lanes; a long silence at its end is worth something.
The first and the last step may be cut off by the recording: they may lack bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.methods.prism.front.observe.lanes import Lane
from llmprism.methods.prism.front.parameters import (
    BORDER_WORTH,
    BYTES_CAP,
    BYTES_COST,
    CANDIDATE_SILENCE,
    COMPARED_LANES,
    EQUAL_BYTES,
    LEAST_BYTES,
    MOST_BYTES,
)
from llmprism.methods.prism.front.segment.balance import Balance
from llmprism.methods.prism.front.segment.vote import Election
from llmprism.numerics.arrays import Floats, Ints


def refine(
    lanes: list[Lane], members: list[int], election: Election, balances: dict[int, Balance]
) -> Election:
    """The election with the borders of the lead lane that fit the bytes of all lanes best."""
    lead, level = lanes[election.lead], election.levels[election.lead]
    at = _candidates(lead, level.cuts, level.silence_ns, balances.get(election.lead))
    moments = np.concatenate(([-np.inf], (lead.reached[at - 1] + lead.start[at]) / 2, [np.inf]))
    heaviest = sorted(members, key=lambda i: -lanes[i].bytes)[:COMPARED_LANES]
    before = np.array([_sent_before(lanes[i], moments) for i in {*heaviest, election.lead}])
    nodes = np.searchsorted(at, np.intersect1d(at, level.cuts)) + 1
    usual = _usual(before, nodes)
    before, usual = before[usual > 0], usual[usual > 0]
    lead_before = _sent_before(lead, moments)
    threshold = level.silence_ns * np.exp(-level.contrast / 2)
    gain = np.log((lead.start[at] - lead.reached[at - 1]) / threshold)
    gain = BORDER_WORTH * np.clip(gain, -1.0, 1.0)
    step = float(np.median(np.diff(lead_before[nodes])))
    chosen = _solve(before / usual[:, None], lead_before / max(step, 1.0), np.append(gain, 0.0))
    cuts = at[chosen - 1]
    if _equal(lead, cuts) < _equal(lead, level.cuts):
        return election
    levels = {**election.levels, election.lead: replace(level, cuts=cuts)}
    if cuts.size + 1 != election.steps:
        levels = {election.lead: levels[election.lead]}
    return Election(cuts.size + 1, levels, election.lead, election.share)


def _equal(lead: Lane, cuts: Ints) -> float:
    """Share of the bytes in equal steps."""
    steps = np.diff(np.concatenate(([0.0], lead.sent[cuts], [lead.bytes])))
    equal = np.abs(steps / np.median(steps) - 1) <= EQUAL_BYTES
    return float(steps[equal].sum() / lead.bytes)


def _candidates(lead: Lane, cuts: Ints, silence: float, balance: Balance | None) -> Ints:
    """Records of the lead lane that may begin a step."""
    at = lead.silent
    able = lead.gaps[at - 1] >= CANDIDATE_SILENCE * silence
    if balance is not None:
        able &= balance.clean(lead.reached[at - 1], lead.start[at])
    return at[able] if 2 * able.sum() > cuts.size else np.union1d(at[able], cuts)


def _sent_before(lane: Lane, moments: Floats) -> Floats:
    return lane.sent[np.searchsorted(lane.start, moments)]


def _usual(before: Floats, nodes: Ints) -> Floats:
    """Usual bytes of a step of each lane."""
    steps = np.diff(before[:, nodes], axis=1)
    return np.median(steps, axis=1) if steps.shape[1] else before[:, -1] / 2


def _solve(before: Floats, lead: Floats, gain: Floats) -> Ints:
    """Nodes of the best path from the first to the last node, without both.

    Parameters
    ----------
    before : bytes before each node in usual steps, shape (lanes, nodes).
    lead : the same of the lead lane, shape (nodes,).
    gain : of each node but the first, shape (nodes - 1,).
    """
    count = lead.size
    value, origin = np.full(count, -np.inf), np.zeros(count, np.int64)
    value[0] = 0.0
    first = np.searchsorted(lead, lead - MOST_BYTES)
    last = np.searchsorted(lead, lead - LEAST_BYTES, side="right")
    for j in range(1, count):
        low, high = int(first[j]), min(max(int(last[j]), int(first[j]) + 1), j)
        high = j if j == count - 1 else high
        if high <= low:
            low, high = j - 1, j
        excess = before[:, j, None] - before[:, low:high] - 1
        apart = np.abs(excess)
        if j == count - 1:
            apart = np.maximum(excess, 0.0)
        elif low == 0:
            apart[:, 0] = np.maximum(excess[:, 0], 0.0)
        cost = BYTES_COST * np.minimum(apart, BYTES_CAP).mean(axis=0)
        total = value[low:high] - cost
        best = int(np.argmax(total))
        value[j], origin[j] = total[best] + gain[j - 1], low + best
    path = []
    node = int(origin[count - 1])
    while node > 0:
        path.append(node)
        node = int(origin[node])
    return np.array(path[::-1], np.int64)
