"""Pipelines of two stages that hold several chunks of the model each (interleaved schedule).

With more stages, the first and the last one exchange fewer messages than neighbours do, which
shows the chunks. Two stages have one couple only, and activations and gradients of all chunks pass
on it both ways. What shows them is the first answer. Without chunks it is a gradient, so it follows
the first activation after a forward and a backward pass. With chunks it is the activation of the
next chunk, after one forward pass. Host work may keep the second stage from its first pass. The
second answer still follows the first one after one forward pass with chunks, and after a backward
pass or more without, and so does what the first stage sends next.

The first stage then sends one activation after another, two for each chunk and one more, before
its first backward pass makes it pause for longer. If it pauses earlier, once it has an answer, the
network may be slower than forward passes, or the second stage far faster than the first. Where
records hold several messages, or passes differ much in length, both forms may look alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.classes.sizes import is_of_one_size
from llmprism.methods.prism.parameters import MOSTLY
from llmprism.methods.prism.phases.phases import Phases
from llmprism.numerics.arrays import Floats, Ints, order_in_groups
from llmprism.numerics.missing import finite_median

ONE_PASS = 1.5  # forward passes before an answer: one with chunks, two or more without
WARM_UP = 2  # activations that leave before any answer; a trainer that waits for each sends one
PAUSE = 2.5  # forward passes: a longer silence of the first stage is its first backward pass

Sent = tuple[Ints, Floats, Floats]


def chunks_of_two(
    flows: FlowTable, phases: Phases, own: Sequence[KindOf], stage: Ints, forward_ns: float
) -> int:
    """Chunks of each of two stages; 1 without interleaving, 0 if there are several but unclear."""
    sent, got = _messages(flows, phases, own, stage)
    cells = stage.size * phases.count
    if not forward_ns > 0 or not sent[0].size or not got[0].size:
        return 1
    answered = np.full(cells, np.nan)
    np.fmin.at(answered, got[0], got[1])
    early, merged = _answer_activations(sent, got, answered, ONE_PASS * forward_ns)
    if early < MOSTLY:
        sizes = np.concatenate([one.traffic.size for one in own])
        unclear = merged >= MOSTLY or (early > 1 - MOSTLY and not is_of_one_size(sizes))
        return 0 if unclear else 1
    runs = _first_runs(sent, answered, PAUSE * forward_ns)
    usual = finite_median(runs)
    clear = (runs == usual).mean() >= MOSTLY and usual >= 2 * WARM_UP
    return int(usual) // 2 if clear else 0


def _messages(
    flows: FlowTable, phases: Phases, own: Sequence[KindOf], stage: Ints
) -> tuple[Sent, Sent]:
    """What endpoints of the first stage send and get: cell (endpoint and step), start, end."""
    place = np.full(len(flows.addresses), -1)
    place[phases.endpoints] = np.arange(phases.endpoints.size)
    rows = np.concatenate([one.traffic.row[one.step >= 0] for one in own])
    step = np.concatenate([one.step[one.step >= 0] for one in own])
    start, end = flows.start_ns[rows].astype(np.float64), flows.end_ns[rows].astype(np.float64)
    first: list[Sent] = []
    for who in (place[flows.src[rows]], place[flows.dst[rows]]):
        chosen = stage[who] == 0
        first.append((who[chosen] * phases.count + step[chosen], start[chosen], end[chosen]))
    return first[0], first[1]


def _answer_activations(
    sent: Sent, got: Sent, answered: Floats, one_pass_ns: float
) -> tuple[float, float]:
    """Share of steps in which the first answer, at ``answered``, or the next one takes one pass.

    And that in which it comes before the first record has ended, which then holds several
    activations.
    """
    arrived, ended = np.full(answered.size, np.nan), np.full(answered.size, np.nan)
    np.fmin.at(arrived, sent[0], sent[2])
    np.fmin.at(ended, got[0], np.where(got[1] == answered[got[0]], got[2], np.nan))
    at_once = answered - arrived < one_pass_ns
    late = _next_after(got, ended) - answered < one_pass_ns
    late &= _next_after(sent, ended) - ended < one_pass_ns
    ahead = np.bincount(sent[0], sent[1] < answered[sent[0]], answered.size)
    early = (arrived < answered) & (at_once | late) & (ahead >= WARM_UP)
    known = np.isfinite(answered - arrived)
    if not known.any():
        return 0.0, 0.0
    return float(early[known].mean()), float((answered < arrived)[known].mean())


def _next_after(messages: Sent, ended: Floats) -> Floats:
    """Start [ns] of the first message of each cell that begins when its first answer has ended.

    What begins before may be a part of that answer, on another queue pair.
    """
    found = np.full(ended.size, np.nan)
    np.fmin.at(found, messages[0], np.where(messages[1] >= ended[messages[0]], messages[1], np.nan))
    return found


def _first_runs(sent: Sent, answered: Floats, pause_ns: float) -> Floats:
    """Messages of each cell until the first silence of ``pause_ns`` that begins when answered."""
    order = order_in_groups(sent[0], sent[1])
    cell, start = sent[0][order], sent[1][order]
    opens = np.flatnonzero(np.diff(cell, prepend=-1))
    place = np.arange(cell.size) - np.repeat(opens, np.diff(np.append(opens, cell.size)))
    before = np.roll(start, 1)
    pauses = (start - before >= pause_ns) & (before >= answered[cell]) & (place > 0)
    length = np.where(pauses, place, np.inf)
    return np.minimum.reduceat(length, opens)
