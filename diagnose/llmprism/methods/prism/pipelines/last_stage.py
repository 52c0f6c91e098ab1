"""Whether backward passes are split in two (ZB-H1), from how fast the last stage answers.

The last stage answers each activation with its gradient, one after the other. The first answers
take a forward and a backward pass; the very first may take longer, as the stage may still be at
its update. Later ones take as long if passes are whole (1F1B). If they are split, the stage has
begun to delay gradients of its weights, one for each stage before it; from then on it also computes
one of these before each answer, which makes later answers longer by a third or a half. A stage that
waits for activations computes them meanwhile and shows nothing. Nor do longer answers of a stage
that waits for collectives in every micro-batch (for shards, or for exchanges inside the passes), or
that may have to wait until its last answer has left (TCP). Exchanges inside the passes are a part
of every answer, too, and take as long in split passes: equal answers then show nothing either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.kinds.same_exchanges import exchange_in_passes
from llmprism.methods.prism.parameters import SMALL
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Floats, Ints
from llmprism.numerics.missing import TO_SIGMA

LOOKED_AT = 16  # endpoints of the last stage
SPLIT, WHOLE = 1.25, 1.12  # later answers over early ones: 4/3 or 3/2, and 1
BLOCKED = 1.2  # ... 1 if answers may have to wait until the last one has left
TCP = 6
TICKS = 8  # of the clock: ratios of shorter times are not known to an eighth
SPLIT_ERRORS = 2.0  # standard errors by which later answers are longer


@dataclass(frozen=True)
class Answers:
    """What the last stage of a pipeline shows.

    Attributes
    ----------
    later : length of later answers over that of early ones, median; NaN where it waits.
    blocks : whether it may have to wait until its last answer has left, as all stages may.
    """

    later: float = float("nan")
    blocks: bool = False

    @property
    def are_split(self) -> bool | None:
        """Whether backward passes are split; None where flows do not show it."""
        if self.blocks:
            return False if self.later <= BLOCKED else None
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
    blocks = may_block(flows, own)
    if micro_batches <= stages:
        return Answers(blocks=blocks)
    early: list[list[float]] = [[], []]
    late: list[float] = []
    steps = held_up = 0
    for got, sent, beside in steps_of_last(flows, connections, phases, own, stage, micro_batches):
        free = np.concatenate(([got[0]], sent[:-1]))
        answer, waited = sent - np.maximum(got, free), got - free
        usual = min(answer[0], np.median(answer[1:stages]))
        busy = (np.arange(micro_batches) >= stages) & (waited < SMALL * usual)
        early[0].append(answer[0])
        early[1] += answer[1:stages].tolist()
        late += answer[busy].tolist()
        steps += 1
        held_up += bool(((beside[0] < sent[-2]) & (beside[1] > sent[0])).any())
    if len(late) <= SMALL * steps:
        return Answers(blocks=blocks)
    later = _times(late, min(early, key=np.median), clock_tick_ns(flows.start_ns, flows.end_ns))
    waits = 2 * held_up > steps if later >= SPLIT else exchange_in_passes(phases.classes)
    return Answers(float("nan") if waits else later, blocks)


def may_block(flows: FlowTable, own: Sequence[KindOf]) -> bool:
    """Whether a stage may have to wait until a message has left, as sockets are used (TCP)."""
    protocol = flows.optional.get("protocol")
    rows = np.concatenate([one.traffic.row for one in own])
    return protocol is not None and bool((protocol[rows] == TCP).any())


def _times(late: list[float], early: list[float], tick_ns: int) -> float:
    """Median of ``late`` over that of ``early``; NaN if it may be below ``SPLIT`` by chance."""
    least_ns = TICKS * tick_ns if tick_ns > 1 else 1
    if not min(np.median(late), np.median(early)) >= least_ns:
        return float("nan")  # a clock that is too coarse for them
    ratio = float(np.median(late) / np.median(early))
    error = float(np.hypot(_error(late), _error(early)))
    return float("nan") if ratio >= SPLIT > ratio * (1 - SPLIT_ERRORS * error) else ratio


def _error(values: list[float]) -> float:
    """Standard error of the median of ``values``, over it; nearly."""
    own = np.array(values)
    away = np.abs(own / np.median(own) - 1)
    return TO_SIGMA * float(np.median(away)) / float(np.sqrt(own.size))


def _beside(connections: Connections, phases: Phases, end: int) -> Ints:
    """Begins and ends [ns] of the records of collectives that an endpoint sends, shape (2, n)."""
    times = [np.empty((2, 0), np.int64)]
    for one in phases.classes:
        if one.kind not in ("pp", "other"):
            traffic = one.traffic
            mine = (connections.src == end)[connections.of_row[traffic.row]]
            times.append(np.stack((traffic.start_ns[mine], traffic.end_ns[mine])))
    return np.concatenate(times, axis=1)


def steps_of_last(
    flows: FlowTable,
    connections: Connections,
    phases: Phases,
    own: Sequence[KindOf],
    stage: Ints,
    micro_batches: int,
) -> Iterator[tuple[Floats, Floats, Ints]]:
    """Ends of activations and begins of gradients [ns], of steps in which all have a record.

    And begins and ends of the records of collectives that the endpoint sends.
    """
    shape = (phases.count, micro_batches)
    for end in phases.endpoints[stage == stage.max()][:LOOKED_AT].tolist():
        got = _moments(connections, own, (connections.dst, end), flows.end_ns, shape)
        sent = _moments(connections, own, (connections.src, end), flows.start_ns, shape)
        whole = np.isfinite(got).all(axis=1) & np.isfinite(sent).all(axis=1)
        beside = _beside(connections, phases, end)
        yield from ((*each, beside) for each in zip(got[whole], sent[whole], strict=True))


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
        chosen = one.connections[at[0][one.connections] == at[1]]
        of_row = connections.of_row[one.traffic.row] if chosen.size else chosen
        for connection in chosen.tolist():
            mine = np.flatnonzero(of_row == connection)
            mine = mine[one.step[mine] >= 0]
            step, when = one.step[mine], time_ns[one.traffic.row[mine]]
            order = np.lexsort((when, step))
            full = np.bincount(step, minlength=shape[0]) == shape[1]
            if full.sum() > np.isfinite(best).all(axis=1).sum():
                best = np.full(shape, np.nan)
                best[full] = when[order][full[step[order]]].reshape(-1, shape[1])
    return best
