"""Whether backward passes are split in two (ZB-H1), from how fast the last stage answers.

The last stage answers each activation with its gradient, one after the other. The first answer
takes a forward and a backward pass. Later ones take as long if passes are whole (1F1B). If they
are split, the stage has begun to delay gradients of its weights, one for each stage before it; from
then on it also computes one of these before each answer, which makes later answers longer by a
third or a half. A stage that waits for activations computes them meanwhile and shows nothing. Nor
do longer answers of a stage that waits for collectives in every micro-batch (for shards, or for
exchanges inside the passes), or that may have to wait until its last answer has left (TCP).

With all forward passes first (GPipe), the first answer takes far longer than all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.connections import Connections
from llmprism.methods.prism.phases import KindOf, Phases
from llmprism.numerics.arrays import Codes, Floats, Ints

LOOKED_AT = 16  # endpoints of the last stage
WAITED = 0.15  # of the first answer: a stage that waits for longer may do something meanwhile
SPLIT, WHOLE = 1.25, 1.2  # later answers over the first: 4/3 or 3/2, and 1
TCP = 6
ENOUGH = 0.1  # share of steps in which later answers show how long they take


@dataclass(frozen=True)
class Answers:
    """What the last stage of a pipeline shows.

    Attributes
    ----------
    seen : whether its messages can be distinguished.
    later : length of later answers over that of the first one, median; NaN where it waits.
    """

    seen: bool = False
    later: float = float("nan")

    @property
    def are_split(self) -> bool | None:
        """Whether backward passes are split; None where flows do not show it."""
        if self.later >= SPLIT:
            return True
        return False if self.later <= WHOLE else None


def find_answers(
    flows: FlowTable,
    connections: Connections,
    phases: Phases,
    own: Sequence[KindOf],
    stage: Ints,
    micro_batches: int,
) -> Answers:
    """Time the answers of the last stage, where a step has more messages than stages."""
    stages = int(stage.max()) + 1
    if micro_batches <= stages:
        return Answers()
    ratios, seen, held_up = [], 0, 0
    for got, sent, begins in _steps_of_last(flows, connections, phases, own, stage, micro_batches):
        first = sent[0] - got[0]
        free = np.concatenate(([got[0]], sent[:-1]))
        waited = got - free
        answer = sent - np.maximum(got, free)
        busy = (np.arange(micro_batches) >= stages) & (waited < WAITED * first)
        seen += first > 0
        if busy.any() and first > 0:
            ratios.append(float(np.median(answer[busy])) / first)
            held_up += np.searchsorted(begins, sent[0]) < np.searchsorted(begins, sent[-2])
    later = float(np.median(ratios)) if len(ratios) > ENOUGH * seen else float("nan")
    waits = later >= SPLIT and (2 * held_up > len(ratios) or _may_block(flows, own))
    return Answers(seen > 0, float("nan") if waits else later)


def _may_block(flows: FlowTable, own: Sequence[KindOf]) -> bool:
    """Whether a stage may have to wait until a message has left, as sockets are used (TCP)."""
    protocol = flows.optional.get("protocol")
    rows = np.concatenate([one.one.traffic.row for one in own])
    return protocol is not None and bool((protocol[rows] == TCP).any())


def _begins_beside(connections: Connections, phases: Phases, end: int) -> Ints:
    """Begins [ns] of the records of collectives that an endpoint sends, sorted."""
    begins = [np.empty(0, np.int64)]
    for one in phases.classes:
        if one.kind not in ("pp", "other"):
            traffic = one.one.traffic
            mine = connections.src[connections.of_row[traffic.row]] == end
            begins.append(traffic.start_ns[mine])
    return np.sort(np.concatenate(begins))


def _steps_of_last(
    flows: FlowTable,
    connections: Connections,
    phases: Phases,
    own: Sequence[KindOf],
    stage: Ints,
    micro_batches: int,
) -> Iterator[tuple[Floats, Floats, Ints]]:
    """Ends of activations and begins of gradients [ns], of steps in which all have a record.

    And begins of the records of collectives that the endpoint sends.
    """
    shape = (phases.count, micro_batches)
    for end in phases.endpoints[stage == stage.max()][:LOOKED_AT].tolist():
        got = _moments(connections, own, (connections.dst, end), flows.end_ns, shape)
        sent = _moments(connections, own, (connections.src, end), flows.start_ns, shape)
        whole = np.isfinite(got).all(axis=1) & np.isfinite(sent).all(axis=1)
        begins = _begins_beside(connections, phases, end)
        yield from ((*each, begins) for each in zip(got[whole], sent[whole], strict=True))


def _moments(
    connections: Connections,
    own: Sequence[KindOf],
    at: tuple[Ints | Codes, int],
    time_ns: Ints,
    shape: tuple[int, int],
) -> Floats:
    """Times [ns] of the messages of one connection, in order, shape (steps, micro-batches).

    Of the connections whose one side ``at`` names, that which most steps show whole; NaN elsewhere.
    """
    best = np.full(shape, np.nan)
    for one in own:
        of_row = connections.of_row[one.one.traffic.row]
        chosen = one.one.connections[at[0][one.one.connections] == at[1]]
        for connection in chosen.tolist():
            mine = np.flatnonzero((of_row == connection) & (one.step >= 0))
            step, when = one.step[mine], time_ns[one.one.traffic.row[mine]]
            order = np.lexsort((when, step))
            full = np.bincount(step, minlength=shape[0]) == shape[1]
            if full.sum() > np.isfinite(best).all(axis=1).sum():
                best = np.full(shape, np.nan)
                best[full] = when[order][full[step[order]]].reshape(-1, shape[1])
    return best
