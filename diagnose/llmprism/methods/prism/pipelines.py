"""Pipelines: order of stages, micro-batches, and how long a forward pass of the first stage takes.

In a step every stage first sends an activation, the first stage before all others, and the
last stage, which has nobody to send activations to, sends its first gradient after that. So
the stages are in the order in which they first send.

The first stage begins with forward passes that wait for nothing (warm-up). Its first two
activations leave one forward pass apart, and the first one leaves one forward pass after the
step began. That shows when the step began, which no traffic marks.

Messages are counted by volume: bytes of a step in one direction, over the size of a message,
which is the size that most bytes travel in. Where sizes differ (sequences of different
length), records are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.connections import Connections
from llmprism.methods.prism.phases import MISSING, KindOf, Phases
from llmprism.numerics.arrays import Codes, Floats, Ints
from llmprism.numerics.graph import components

WHOLE = 0.1  # a count of messages may be this far from a whole number
BIN = 0.02  # width of the bins (in logarithm) in which sizes count as equal


@dataclass(frozen=True)
class Pipelines:
    """The pipelines of a job.

    Attributes
    ----------
    stage : stage of each endpoint of the job, -1 if it is in no pipeline, shape (endpoints,).
    number : pipeline of each endpoint, -1 if none.
    length : stages of a pipeline, 1 if there is none.
    micro_batches : of a step, -1 where they cannot be counted.
    chunks : parts of the model a stage holds (interleaved schedule).
    forward_ns : median time of a forward pass of the first stage, NaN if unknown.
    first_sent_ns : when each first-stage endpoint sent its first activation, by step; NaN where
        unknown, relative to ``origin_ns``, shape (endpoints, steps).
    deepest : most messages that were outstanding between the first two stages, 0 if unknown.
    """

    stage: Ints
    number: Ints
    length: int
    micro_batches: int
    chunks: int
    forward_ns: float
    first_sent_ns: Floats
    origin_ns: int
    deepest: int


def find_pipelines(flows: FlowTable, connections: Connections, phases: Phases) -> Pipelines:
    """Put the stages of ``phases`` in order, and read what the first stage shows."""
    own = [one for one in phases.classes if one.kind == "pp"]
    shape = (phases.endpoints.size, phases.count)
    nowhere = np.full(phases.endpoints.size, -1)
    if not own:
        blank = np.full(shape, np.nan)
        return Pipelines(nowhere, nowhere, 1, -1, 1, np.nan, blank, 0, 0)
    sent = phases.moments["pp"].sent_ns
    origin = int(sent[sent != MISSING].min())
    offset = np.where(sent == MISSING, np.nan, (sent - origin).astype(np.float64))
    number = _numbers(connections, own, phases.endpoints, len(flows.addresses))
    stage = _stages(number, offset)
    length = int(stage.max()) + 1
    first = np.where((stage == 0)[:, None], offset, np.nan)
    micro_batches, chunks, size = _messages(connections, own, phases.count)
    forward = _forward(flows, phases, own, np.flatnonzero(stage == 0), size)
    return Pipelines(stage, number, length, micro_batches, chunks, forward, first, origin, 0)


def _numbers(
    connections: Connections, own: Sequence[KindOf], endpoints: Codes, nodes: int
) -> Ints:
    chosen = np.concatenate([one.one.connections for one in own])
    pairs = np.unique(np.column_stack((connections.src[chosen], connections.dst[chosen])), axis=0)
    label = components(pairs[:, 0], pairs[:, 1], nodes)
    used = np.isin(endpoints, np.unique(pairs))
    number = np.full(endpoints.size, -1)
    number[used] = np.unique(label[endpoints[used]], return_inverse=True)[1]
    return number


def _stages(number: Ints, sent: Floats) -> Ints:
    """Stage of each endpoint: its place among those of its pipeline by first sending."""
    stage = np.full(number.size, -1)
    for one in range(int(number.max()) + 1):
        rows = np.flatnonzero(number == one)
        begin = np.nanmin(sent[rows], axis=0)
        late = np.nanmedian(sent[rows] - begin, axis=1)
        stage[rows[np.argsort(late, kind="stable")]] = np.arange(rows.size)
    return stage


def _messages(
    connections: Connections, own: Sequence[KindOf], count: int
) -> tuple[int, int, float]:
    """Micro-batches, chunks, and bytes of a message (of one connection)."""
    per_class = []
    for one in own:
        traffic = one.one.traffic
        size = _usual_size(traffic.size)
        volume = traffic.size.sum() / one.one.connections.size / count
        number = volume / size
        if abs(number - round(number)) > WHOLE * max(1.0, number / 20) or number < 0.5:
            number = len(traffic) / one.one.connections.size / count
        per_class.append((number, size, one.one.connections.size))
    most = max(round(number) for number, _, _ in per_class)
    least = min(round(number) for number, _, _ in per_class)
    size = float(np.median([size for _, size, _ in per_class]))
    if least < most and most % max(most - least, 1) == 0:
        chunks = most // (most - least)  # between last and first stage one chunk fewer
        return most // chunks, chunks, size
    return most, 1, size


def _usual_size(size: Ints) -> float:
    """The size in which most bytes travel."""
    bins = np.rint(np.log(size) / BIN).astype(np.int64)
    weight = np.bincount(bins, size)
    best = int(np.argmax(weight))
    return float(np.median(size[np.abs(bins - best) <= 1]))


def _forward(
    flows: FlowTable, phases: Phases, own: Sequence[KindOf], first: Ints, size: float
) -> float:
    """Median time from the first activation to the second, over first stages and steps [ns]."""
    lead = set(phases.endpoints[first].tolist())
    waits: list[float] = []
    for one in own:
        traffic = one.one.traffic
        src = flows.src[traffic.row]
        chosen = np.flatnonzero(np.isin(src, list(lead)) & (one.step >= 0))
        order = chosen[np.lexsort((traffic.start_ns[chosen], one.step[chosen], src[chosen]))]
        cell = src[order].astype(np.int64) * phases.count + one.step[order]
        opens = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0)))
        for begin, end in zip(opens, np.append(opens[1:], order.size), strict=True):
            rows = order[begin:end]
            if rows.size < 2:
                continue
            moved = np.cumsum(traffic.size[rows])
            after = int(np.searchsorted(moved, 0.9 * size)) + 1
            if after < rows.size:
                waits.append(float(traffic.start_ns[rows[after]] - traffic.start_ns[rows[0]]))
    return float(np.median(waits)) if waits else np.nan
