"""Pipelines: order of stages, micro-batches, and how long a forward pass of the first stage takes.

In a step every stage first sends an activation, the first stage before all others, and the
last stage, which has nobody to send activations to, sends its first gradient after that. So
the stages are in the order in which they first send.

The first stage begins with forward passes that wait for nothing (warm-up). Its first two
activations leave one forward pass apart, and the first one leaves one forward pass after the
step began. That shows when the step began, which no traffic marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.kinds.mute import places_of_mute
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases, joined
from llmprism.methods.prism.pipelines.first_backward import BACKWARD, backward_of_first_ns
from llmprism.methods.prism.pipelines.last_stage import (
    Answers,
    find_answers,
    may_block,
    steps_of_last,
)
from llmprism.methods.prism.pipelines.micro_batches import (
    COUPLE,
    OFTEN,
    UNCOUNTED,
    are_countable,
    deepest,
    divided,
    messages_of_a_step,
    usual_size,
)
from llmprism.methods.prism.pipelines.middle_stages import forward_of_middle_ns
from llmprism.methods.prism.pipelines.two_stages import chunks_of_two
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups
from llmprism.numerics.missing import TO_SIGMA, finite_median, nanmedian

PART = 0.1  # of a message: what control messages and headers add to others, or loss takes away
NOISE = 4.0  # deviations from the median step that an ordinary step does not reach


@dataclass(frozen=True)
class Pipelines:
    """The pipelines of a job. Times are relative to ``origin_ns``, NaN where unknown.

    Attributes
    ----------
    stage : stage of each endpoint of the job, -1 if it is in no pipeline, shape (endpoints,).
    number : pipeline of each endpoint, -1 if none.
    length : stages of a pipeline, 1 if there is none.
    micro_batches : of a step, -1 where they cannot be counted.
    chunks : parts of the model a stage holds (interleaved schedule), 0 where flows cannot tell.
    forward_ns, backward_ns : median time of a pass of the first stage, and back of a later one.
    middle_ns : median time of a forward pass of a middle stage.
    first_sent, second_sent, third_sent : when a first-stage endpoint sent the step's first
        activations, by step.
    last_sent : when a later stage began to send the step's last gradient.
    last_got : when a stage had received the step's last gradient.
    deepest : most messages outstanding between the first two stages, median over steps.
    answers : how long the last stage takes to answer.
    lead_ns : time from the begin of a step to its first activation, measured or estimated.
    messages : of a step from the first stage to the second one, -1 where they cannot be counted.
    """

    stage: Ints
    number: Ints
    length: int
    micro_batches: int
    chunks: int
    forward_ns: float
    backward_ns: float
    middle_ns: float
    first_sent: Floats
    second_sent: Floats
    third_sent: Floats
    last_sent: Floats
    last_got: Floats
    deepest: int
    origin_ns: int
    answers: Answers = field(default_factory=Answers)
    lead_ns: float = np.nan
    messages: int = -1


def find_pipelines(flows: FlowTable, connections: Connections, phases: Phases) -> Pipelines:
    """Put the stages of ``phases`` in order, and read what the first stage shows."""
    own = [one for one in phases.classes if one.kind == "pp"]
    nowhere = np.full(phases.endpoints.size, -1)
    if not own:
        blank = np.full((phases.endpoints.size, phases.count), np.nan)
        return Pipelines(
            nowhere, nowhere, 1, -1, 1, np.nan, np.nan, np.nan,
            blank, blank, blank, blank, blank, 0, 0,
        )  # fmt: skip
    sent = phases.moments["pp"].sent_ns
    origin = int(sent[sent != MISSING].min())
    offset = np.where(sent == MISSING, np.nan, (sent - origin).astype(np.float64))
    number = joined(connections, own, "pp", phases.endpoints, len(flows.addresses))
    chosen = np.concatenate([one.one.connections for one in own])
    mute = places_of_mute(offset, connections, chosen, phases.endpoints, phases.dp_group)
    stage = _stages(number, offset, phases.dp_group, mute)
    micro_batches, chunks = messages_of_a_step(connections, own, phases.count)
    passes = _passes(flows, connections, phases, own, stage, micro_batches * chunks, origin)
    forward = finite_median(passes["second"] - passes["first"])
    if not are_countable(connections, phases, own, micro_batches * chunks):
        micro_batches = UNCOUNTED
    messages = micro_batches * chunks if micro_batches > 0 else UNCOUNTED
    if stage.max() == 1 and chunks == 1 and micro_batches > COUPLE:
        held = chunks_of_two(flows, phases, own, stage, forward)
        micro_batches, chunks = divided(micro_batches, held)
    backward = finite_median(passes["last_sent"] - passes["last_got"])
    if not backward > 0:
        backward = finite_median(passes["turn"]) - forward
    if not backward > 0:
        last = (flows, connections, phases, own, stage, micro_batches * chunks)
        several = steps_of_last(*last) if micro_batches * chunks > 1 else ()
        backward = backward_of_first_ns(several, forward)
    return Pipelines(
        stage, number, int(stage.max()) + 1, micro_batches, chunks, forward, backward,
        forward_of_middle_ns(flows, phases, own, stage),
        passes["first"], passes["second"], passes["third"], passes["last_sent"], passes["last_got"],
        deepest(passes["deepest"], own, micro_batches), origin,
        find_answers(flows, connections, phases, own, stage, micro_batches * chunks)
        if chunks == 1 else Answers(blocks=may_block(flows, own)),
        forward if forward > 0 else _lead(passes["answered"] - passes["first"], int(stage.max())),
        messages,
    )  # fmt: skip


def _stages(
    number: Ints,
    sent: Floats,
    dp_group: Ints,
    mute: Mapping[int, Sequence[tuple[int, float]]] = MappingProxyType({}),
) -> Ints:
    """Stage of each endpoint: its place among those of its pipeline by first sending.

    The members of a data-parallel group are in the same stage, so they count together: a first
    message that was lost or not sampled misleads about one endpoint, not about its group. Those
    that nobody sees send are next to others (:mod:`~llmprism.methods.prism.kinds.mute`).
    """
    late = np.full(number.size, np.nan)
    for one in range(int(number.max()) + 1):
        rows = np.flatnonzero(number == one)
        own = sent[rows]
        begin = np.where(np.isnan(own), np.inf, own).min(axis=0)
        late[rows] = nanmedian(np.where(np.isfinite(begin), own - begin, np.nan), axis=1)
    common = late.copy()
    for group in np.unique(dp_group[dp_group >= 0]).tolist():
        common[dp_group == group] = nanmedian(late[dp_group == group][None, :], axis=1)
    for row, beside in mute.items():
        common[row] = late[row] = min(common[sender] + after for sender, after in beside)
    stage = np.full(number.size, -1)
    for one in range(int(number.max()) + 1):
        rows = np.flatnonzero(number == one)
        stage[rows[np.lexsort((late[rows], common[rows]))]] = np.arange(rows.size)
    return stage


def _passes(
    flows: FlowTable,
    connections: Connections,
    phases: Phases,
    own: Sequence[KindOf],
    stage: Ints,
    messages: int,
    origin: int,
) -> dict[str, Floats]:
    """Moments of each endpoint and step that show when passes began and ended.

    What the first stage sends is counted from the end of the step: forward passes of an
    evaluation, which bring no gradients, come before the step's own.
    """
    place = np.full(len(flows.addresses), -1)
    place[phases.endpoints] = np.arange(phases.endpoints.size)
    shape = (phases.endpoints.size, phases.count)
    found = {name: np.full(shape, np.nan) for name in _NAMES}
    for one in own:
        known = one.step >= 0
        rows, step = one.one.traffic.row[known], one.step[known]
        size = one.one.traffic.size[known]
        src, dst = place[flows.src[rows]], place[flows.dst[rows]]
        start = (flows.start_ns[rows] - origin).astype(np.float64)
        end = (flows.end_ns[rows] - origin).astype(np.float64)
        back = stage[dst] == stage[src] - 1
        _latest(found["last_sent"], src[back], step[back], start[back])
        _latest(found["last_got"], dst[back], step[back], end[back])
        np.fmin.at(found["answered"], (dst[back], step[back]), start[back])
        out = (stage[src] == 0) & (stage[dst] == 1)
        if out.any():
            got = back & (stage[dst] == 0)
            _turns(
                found["turn"], (src[out], step[out], start[out]), (dst[got], step[got], end[got])
            )
            sent, taken = np.flatnonzero(out), np.flatnonzero(got)
            _depths(
                found["deepest"],
                (src[sent], step[sent], start[sent], size[sent]),
                (dst[taken], step[taken], end[taken], size[taken]),
                messages,
            )
            who = (connections.of_row[rows[out]], src[out])
            when = (start[out], end[out])
            _first_three(found, who, step[out], when, size[out], messages)
    return found


def _lead(answered: Floats, beyond: int) -> float:
    """Estimate a forward pass [ns] from the time until the first answer, where no second shows.

    A record that holds several messages still shows when the first one left, and that of what comes
    back, when the first gradient did. In between lie a forward pass of each of the stages
    ``beyond`` the first, and a backward pass, which takes twice as long.
    """
    first = finite_median(answered)
    return first / (beyond * (1 + BACKWARD)) if first > 0 and beyond else float("nan")


_NAMES = ("first", "second", "third", "answered", "last_sent", "last_got", "turn", "deepest")


def _depths(
    into: Floats,
    sent: tuple[Ints, Codes, Floats, Ints],
    got: tuple[Ints, Codes, Floats, Ints],
    messages: int,
) -> None:
    """Most activations that wait for their gradients, in each step of a first-stage endpoint."""
    who, step = np.concatenate((sent[0], got[0])), np.concatenate((sent[1], got[1]))
    when = np.concatenate((sent[2], got[2]))
    size = np.concatenate((sent[3], -got[3])).astype(np.float64)
    cell = who * into.shape[1] + step
    order = order_in_groups(cell, when)
    cell, moved = cell[order], np.cumsum(size[order])
    opens = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0)))
    before = np.repeat(moved[opens] - size[order][opens], np.diff(np.append(opens, cell.size)))
    deepest = np.maximum.reduceat(moved - before, opens)
    volume = np.bincount(sent[0] * into.shape[1] + sent[1], sent[3], into.size)[cell[opens]]
    with np.errstate(all="ignore"):
        into.ravel()[cell[opens]] = np.rint(deepest / volume * messages)


def _turns(into: Floats, sent: tuple[Ints, Codes, Floats], got: tuple[Ints, Codes, Floats]) -> None:
    """Median time from a gradient's arrival in the first stage to the next activation it sends.

    With one backward and one forward pass in turn, that is how long both take.
    """
    steps = into.shape[1]
    far = 1.0 + max(float(sent[2].max()), float(got[2].max(initial=0.0)))
    lane_sent = (sent[0] * steps + sent[1]) * far
    order = np.argsort(lane_sent + sent[2], kind="stable")
    times = (lane_sent + sent[2])[order]
    lane_got = (got[0] * steps + got[1]) * far
    at = np.searchsorted(times, lane_got + got[2], side="left")
    inside = at < times.size
    waits = times[np.minimum(at, times.size - 1)] - (lane_got + got[2])
    inside &= waits < far / 2
    cell = (got[0] * steps + got[1])[inside]
    if cell.size:
        middle = pd.Series(waits[inside]).groupby(cell).median()
        into.ravel()[middle.index.to_numpy()] = middle.to_numpy()


def _latest(into: Floats, who: Ints, step: Codes, when: Floats) -> None:
    np.fmax.at(into, (who, step), when)


def _first_three(
    found: dict[str, Floats],
    who: tuple[Codes, Ints],
    step: Codes,
    when: tuple[Floats, Floats],
    size: Ints,
    messages: int,
) -> None:
    """When the step's first, second and third activation left; the third only if it is alone.

    ``who`` has connection and endpoint of each record, ``when`` its start and end.
    """
    steps = found["first"].shape[1]
    start, end = when
    order = np.lexsort((start, step, who[0]))
    cell = who[0][order].astype(np.int64) * steps + step[order]
    opens = np.flatnonzero(np.concatenate(([True], np.diff(cell) != 0)))
    one_message = usual_size(size)
    single = size < 1.5 * one_message
    passage = float(np.median((end - start)[single])) if single.any() else 0.0
    most = _most_of_a_step(cell, size[order], steps, one_message)
    for begin, stop in zip(opens, np.append(opens[1:], order.size), strict=True):
        rows = order[begin:stop]
        left = np.cumsum(size[rows][::-1])[::-1]
        own = np.flatnonzero(left <= most[int(cell[begin]) // steps])
        if not own.size:
            continue
        at = int(who[1][rows[0]]), int(step[rows[0]])
        lead = rows[own[0]]
        found["first"][at] = np.fmin(found["first"][at], start[lead])
        held = round(size[lead] / one_message)
        if held > 1:  # the record holds several messages
            later = start[lead] + max(0.0, end[lead] - passage - start[lead]) / (held - 1)
            found["second"][at] = np.fmin(found["second"][at], later)
            continue
        begins = own[_begin_messages(size[rows[own]], one_message)]
        if messages > 1 and begins.size > 1:
            found["second"][at] = np.fmin(found["second"][at], start[rows[begins[1]]])
            if messages > 2 and begins.size > 2 and single[rows[begins[1]]]:
                found["third"][at] = np.fmin(found["third"][at], start[rows[begins[2]]])


def _begin_messages(size: Ints, one_message: float) -> Bools:
    """Which records begin a message: others hold the rest of one that an exporter cut."""
    number = np.floor((np.cumsum(size) - size) / one_message + PART)
    begins: Bools = np.diff(number, prepend=-1.0) > 0
    return begins


def _most_of_a_step(cell: Ints, size: Ints, steps: int, one_message: float) -> dict[int, float]:
    """Bytes that each connection moves in a step at most, by its number.

    The median step and half a message more; or as much more as steps usually differ, if few have
    the same bytes: those of sampled records are estimates. What goes beyond is not the step's own.
    """
    volume = pd.Series(size).groupby(cell).sum()
    by_connection = volume.groupby(volume.index.to_numpy() // steps)
    middle = by_connection.median()
    away = (volume - middle.reindex(volume.index.to_numpy() // steps).to_numpy()).abs()
    noise = TO_SIGMA * away.groupby(away.index.to_numpy() // steps).median()
    noise *= (away <= 0.5 * one_message).mean() < OFTEN
    most = middle + np.maximum(0.5 * one_message, NOISE * noise)
    return {int(one): float(value) for one, value in most.items()}
