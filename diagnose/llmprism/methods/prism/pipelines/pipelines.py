"""Pipelines: order of stages, micro-batches, and how long a forward pass of the first stage takes.

In a step every stage first sends an activation, the first stage before all others, and the
last stage, which has nobody to send activations to, sends its first gradient after that. So
the stages are in the order in which they first send.

The first stage begins with forward passes that wait for nothing (warm-up). Its first two
activations leave one forward pass apart, and the first one leaves one forward pass after the
step began. That shows when the step began, which no traffic marks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases, joined
from llmprism.methods.prism.pipelines.first_messages import FULLEST
from llmprism.methods.prism.pipelines.last_stage import (
    Answers,
    find_answers,
    may_block,
    steps_of_last,
)
from llmprism.methods.prism.pipelines.micro_batches import (
    COUPLE,
    UNCOUNTED,
    are_countable,
    deepest,
    divided,
    messages_of_a_step,
)
from llmprism.methods.prism.pipelines.middle_stages import (
    backward_of_first_ns,
    forward_of_middle_ns,
)
from llmprism.methods.prism.pipelines.stage_passes import (
    forward_of_first_ns,
    lead_from_answers_ns,
    passes_of_steps,
)
from llmprism.methods.prism.pipelines.two_stages import chunks_of_two
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.missing import finite_median, nanmedian


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
    first_sent, second_sent : when a first-stage endpoint sent the first activations of a step.
    last_sent : when a later stage began to send the step's last gradient.
    last_got : when a stage had received the step's last gradient.
    deepest : most messages outstanding between the first two stages, median over steps.
    answers : how long the last stage takes to answer.
    lead_ns : time from the begin of a step to its first activation, measured or estimated.
    messages : of a step from the first stage to the second one, -1 where they cannot be counted.
    sent_bytes : what a first-stage endpoint sent to the second stage, by step; 0 for others.
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
    last_sent: Floats
    last_got: Floats
    deepest: int
    origin_ns: int
    answers: Answers = field(default_factory=Answers)
    lead_ns: float = np.nan
    messages: int = -1
    sent_bytes: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def are_whole(self) -> Bools:
        """In which steps each endpoint sent no message less than in its fullest quarter of steps.

        If records are lost, the first one that is left may not be that of the first message.
        """
        usual = np.quantile(self.sent_bytes, FULLEST, axis=1, keepdims=True)
        whole: Bools = self.sent_bytes > (1 - 0.5 / max(self.messages, 1)) * usual
        return whole


def find_pipelines(flows: FlowTable, connections: Connections, phases: Phases) -> Pipelines:
    """Put the stages of ``phases`` in order, and read what the first stage shows."""
    own = [one for one in phases.classes if one.kind == "pp"]
    nowhere = np.full(phases.endpoints.size, -1)
    if not own:
        blank = np.full((phases.endpoints.size, phases.count), np.nan)
        return Pipelines(
            nowhere, nowhere, 1, -1, 1, np.nan, np.nan, np.nan,
            blank, blank, blank, blank, 0, 0,
        )  # fmt: skip
    sent = phases.moments["pp"].sent_ns
    origin = int(sent[sent != MISSING].min())
    offset = np.where(sent == MISSING, np.nan, (sent - origin).astype(np.float64))
    number = joined(connections, own, "pp", phases.endpoints, len(flows.addresses))
    stage = _stages(number, offset, phases.dp_group)
    closing = _are_closing(connections, phases.endpoints, stage)
    micro_batches, chunks = messages_of_a_step(connections, own, phases.count, closing)
    passes = passes_of_steps(flows, connections, phases, own, stage, micro_batches * chunks, origin)
    middle = forward_of_middle_ns(flows, phases, own, stage)
    forward = forward_of_first_ns(passes, middle)
    if not are_countable(connections, phases, own, micro_batches * chunks):
        micro_batches = UNCOUNTED
    messages = micro_batches * chunks if micro_batches > 0 else UNCOUNTED
    if stage.max() == 1 and chunks == 1 and micro_batches > COUPLE:
        held = chunks_of_two(flows, phases, own, stage, forward)
        micro_batches, chunks = divided(micro_batches, held)
    backward = finite_median(passes["last_sent"] - passes["last_got"])
    if not backward > 0 and chunks == 1:
        backward = finite_median(passes["turn"]) - forward
    if not backward > 0:
        last = (flows, connections, phases, own, stage, micro_batches)
        several = steps_of_last(*last) if chunks == 1 and micro_batches > 1 else ()
        backward = backward_of_first_ns(several, forward)
    lead = lead_from_answers_ns(passes["answered"] - passes["first"], int(stage.max()))
    return Pipelines(
        stage, number, int(stage.max()) + 1, micro_batches, chunks, forward, backward,
        middle, passes["first"], passes["second"], passes["last_sent"], passes["last_got"],
        deepest(passes["deepest"], own, micro_batches), origin,
        find_answers(flows, connections, phases, own, stage, micro_batches * chunks)
        if chunks == 1 else Answers(blocks=may_block(flows, own)),
        forward if forward > 0 else lead, messages, np.nan_to_num(passes["bytes"]),
    )  # fmt: skip


def _stages(number: Ints, sent: Floats, dp_group: Ints) -> Ints:
    """Stage of each endpoint: its place among those of its pipeline by first sending.

    The members of a data-parallel group are in the same stage, so they count together: a first
    message that was lost or not sampled misleads about one endpoint, not about its group. If
    servers hide hops of some pipelines, only the longest ones are whole. The parts of the others
    are in the stages of their groups.
    """
    lengths = np.bincount(number[number >= 0])
    whole = (number >= 0) & (lengths[number] == lengths.max())
    late = np.full(number.size, np.nan)
    for one in range(int(number.max()) + 1):
        rows = np.flatnonzero(number == one)
        own = sent[rows]
        begin = np.where(np.isnan(own), np.inf, own).min(axis=0)
        late[rows] = nanmedian(np.where(np.isfinite(begin), own - begin, np.nan), axis=1)
    common = late.copy()
    for group in np.unique(dp_group[dp_group >= 0]).tolist():
        own = dp_group == group
        seen = own & whole if (own & whole).any() else own
        common[own] = nanmedian(late[seen][None, :], axis=1)
    stage = np.full(number.size, -1)
    for one in range(int(number.max()) + 1):
        rows = np.flatnonzero(number == one)
        stage[rows[np.lexsort((late[rows], common[rows]))]] = np.arange(rows.size)
    return _as_in_whole(stage, number, dp_group, whole)


def _as_in_whole(stage: Ints, number: Ints, dp_group: Ints, whole: Bools) -> Ints:
    """Stages of parts of pipelines: those of their groups' members in ``whole`` ones, if known."""
    found = stage.copy()
    known = whole & (dp_group >= 0)
    stage_of = dict(zip(dp_group[known].tolist(), stage[known].tolist(), strict=True))
    for one in np.unique(number[(number >= 0) & ~whole]).tolist():
        rows = np.flatnonzero(number == one)
        places = [stage_of.get(group, -1) for group in dp_group[rows].tolist()]
        if -1 not in places and len({*places}) == len(places):
            found[rows] = places
    return found


def _are_closing(connections: Connections, endpoints: Codes, stage: Ints) -> Bools:
    """Which connections join stages that are not neighbours: the last one and the first one."""
    stage_of = np.full(max(connections.src.max(), connections.dst.max(), endpoints.max()) + 1, -1)
    stage_of[endpoints] = stage
    closing: Bools = np.abs(stage_of[connections.src] - stage_of[connections.dst]) > 1
    return closing
