"""All borders of a component together, by dynamic programming over silences of its lead lane.

A threshold on silences takes a long message silence for a border, and misses a short border. The
bytes tell: a step is a fixed vector of bytes over all lanes. The cost of a step is the capped
deviation of its bytes, averaged over lanes; a long silence at its end is worth something.
The first and the last step may be cut off by the recording: they may lack bytes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.methods.prism.parameters import (
    AFTER,
    ALIKE_BYTES,
    BESIDE,
    BORDER_WORTH,
    BYTES_COST,
    CANDIDATE_SILENCE,
    COMPARED_LANES,
    CUT_OFF,
    EQUAL_BYTES,
    EXACT_BYTES,
    HALF,
    LEAST_BYTES,
    MOST_BYTES,
    SOON,
)
from llmprism.methods.prism.segment.balance import Balance
from llmprism.methods.prism.segment.lanes import Lane, extent_of
from llmprism.methods.prism.segment.vote import Election
from llmprism.numerics.arrays import Floats, Ints


def refine(lanes: list[Lane], election: Election, balances: dict[int, Balance]) -> Election:
    """The election with the borders of the lead lane that fit the bytes of all lanes best."""
    lead, level = lanes[election.lead], election.levels[election.lead]
    at = _candidates(lead, level.cuts, level.silence_ns, balances.get(election.lead))
    low, high = lead.silence(at, extent_of(lanes))
    part = SOON if election.lead in balances else AFTER
    moments = np.concatenate(([-np.inf], low + part * (high - low), [np.inf]))
    heaviest = sorted(lanes, key=lambda lane: -lane.bytes)[:COMPARED_LANES]
    before = np.array([lane.before(moments) for lane in (*heaviest, lead)])
    nodes = np.searchsorted(at, np.intersect1d(at, level.cuts)) + 1
    usual = _usual(before, nodes)
    before, usual = before[usual > 0], usual[usual > 0]
    threshold = level.silence_ns * np.exp(-level.contrast / 2)
    gain = BORDER_WORTH * np.clip(np.log((high - low) / threshold), -1.0, 1.0)
    steps = before / usual[:, None]
    exact = exactness(np.diff(steps[:, nodes], axis=1))
    chosen = _solve(steps, np.append(gain, 0.0), exact)
    cuts = at[chosen - 1]
    better = _equal(lead, cuts) - _equal(lead, level.cuts)
    if better < 0 or (better == 0 and cuts.size + 1 != election.steps):
        return election
    levels = {**election.levels, election.lead: replace(level, cuts=cuts)}
    if cuts.size + 1 != election.steps:
        levels = {election.lead: levels[election.lead]}
    return Election(cuts.size + 1, levels, election.lead, election.weight)


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


def _usual(before: Floats, nodes: Ints) -> Floats:
    """Usual bytes of a step of each lane."""
    steps = np.diff(before[:, nodes], axis=1)
    return np.median(steps, axis=1) if steps.shape[1] else before[:, -1] / 2


def usual_bytes(steps: Floats) -> float:
    """What a lane sends in a step, as far as most steps show [bytes]; 0 if it never sends.

    Others may hold an evaluation besides, which is likelier than a step that lacks something.
    """
    sent = np.sort(steps[steps > 0])
    if not sent.size:
        return 0.0
    lacking = np.searchsorted(sent, (1 - ALIKE_BYTES) * sent)
    until = np.searchsorted(sent, (1 + ALIKE_BYTES) * sent, side="right")
    cost = lacking + BESIDE * (sent.size - until)
    first = int(np.flatnonzero(cost == cost.min())[-1])
    return float(np.median(sent[lacking[first] : until[first]]))


def exactness(steps: Floats, share: float = HALF) -> Floats:
    """Relative deviation of the bytes of a ``share`` of the steps, by lane; shape (lanes, 1).

    Parameters
    ----------
    steps : bytes of each step in usual steps, shape (lanes, steps).
    """
    away = np.abs(steps - 1) if steps.shape[1] else np.zeros((steps.shape[0], 1))
    away = np.quantile(away, share, axis=1)
    exact: Floats = np.clip(away, *EXACT_BYTES)[:, None]
    return exact


def _solve(before: Floats, gain: Floats, exact: Floats) -> Ints:
    """Nodes of the best path from the first to the last node, without both.

    Parameters
    ----------
    before : bytes before each node in usual steps, shape (lanes, nodes).
    gain : of each node but the first, shape (nodes - 1,).
    exact : usual relative deviation of each lane, shape (lanes, 1).
    """
    count = before.shape[1]
    value, origin = np.full(count, -np.inf), np.zeros(count, np.int64)
    value[0] = 0.0
    usual = np.median(before, axis=0)
    first = np.searchsorted(usual, usual - MOST_BYTES)
    last = np.searchsorted(usual, usual - LEAST_BYTES, side="right")
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
        cost = BYTES_COST * np.log1p(apart / exact).mean(axis=0)
        total = value[low:high] - cost
        best = int(np.argmax(total))
        value[j], origin[j] = total[best] + gain[j - 1], low + best
    path = []
    node = int(origin[count - 1])
    while node > 0:
        path.append(node)
        node = int(origin[node])
    return np.array(path[::-1], np.int64)


def best_path(
    likely: list[Floats], sent: list[Floats], total: Floats, exact: Floats
) -> tuple[float, list[int]]:
    """The best choice of one moment for each border, and how likely it is.

    Parameters
    ----------
    likely : log likelihood of each moment that is offered, a border at a time.
    sent : bytes before each in usual steps, shape (lanes, moments), a border at a time.
    total : bytes of each lane, the same way, shape (lanes,).
    exact : usual relative deviation of each lane, shape (lanes, 1).
    """
    value = likely[0] - _cost_of_end(sent[0], exact)
    origins = []
    for k in range(1, len(likely)):
        apart = np.abs(sent[k][:, None, :] - sent[k - 1][:, :, None] - 1)
        cost = BYTES_COST * np.log1p(apart / exact[:, :, None]).mean(axis=0)
        origins.append(np.argmax(value[:, None] - cost, axis=0))
        value = (value[:, None] - cost).max(axis=0) + likely[k]
    value = value - _cost_of_end(total[:, None] - sent[-1], exact)
    path = [int(np.argmax(value))]
    for origin in reversed(origins):
        path.append(int(origin[path[-1]]))
    return float(value.max()), path[::-1]


def _cost_of_end(moved: Floats, exact: Floats) -> Floats:
    """Cost of the first or last step, which may be cut off: it had better be whole.

    Where no lane sends more than noise, there is no step.
    """
    excess = moved - 1
    cost = np.where(excess > 0, 1.0, CUT_OFF) * np.log1p(np.abs(excess) / exact)
    result: Floats = np.where(
        moved.max(axis=0) > EXACT_BYTES[1], BYTES_COST * cost.mean(axis=0), np.inf
    )
    return result
