"""Steps of pipelines that shard their parameters: parted between the passes of two steps.

Sharded parameters are gathered for every pass, forward and backward. A stage that waits for its
neighbours rests within a step, often for longer than between two steps, so the silences of its
data-parallel traffic do not show where a step ends. The passes do: activations and gradients have
the same steps. What a rank moves between its first activation and its last gradient belongs to
that step. What it moves between the last gradient of one step and the first activation of the next
is, in this order, the reduction of the last gradients, a silence for the update, and the gathers of
the first forward pass. As many bytes follow that silence in every step, in the first stage at
least. Where more moves between two steps, what is neither one nor the other is an evaluation.

Only parameters that are gathered for every forward pass move while activations leave the first
stage and nothing has come back yet: this tells them from all other forms of data parallelism.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.connections import Connections
from llmprism.methods.prism.kind_of import KindOf
from llmprism.methods.prism.moments import MISSING, moments_of, period_of, repaired
from llmprism.methods.prism.phases import Phases, moved
from llmprism.methods.prism.pipelines import Pipelines
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups

MOST = 0.75  # share of steps and connections that must agree
EXACT = 0.02  # of the bytes between two steps: differences that count as none
NEAR = 0.1  # of the bytes of a pass: a neighbour may be as far ahead
FEWEST = 2  # times between two steps that show something


@dataclass(frozen=True)
class _Line:
    """Records of one connection, in order of time, beside the passes of its sender.

    Attributes
    ----------
    records : index into the records of the class.
    start_ns, size : of each record.
    busy_ns : when all records up to each one have ended.
    edges : begin and end of what moves before each step, and after the last one: indices into
        ``records``, shape (steps + 1, 2).
    begins_ns, ends_ns : when the passes of each step begin and end, shape (steps,).
    volume : bytes of a step.
    gathered : share of them in the second forward pass of the first stage; 0 if unknown.
    first : whether the sender is of the first stage.
    """

    records: Ints
    start_ns: Ints
    size: Floats
    busy_ns: Ints
    edges: Ints
    begins_ns: Ints
    ends_ns: Ints
    volume: float
    gathered: float
    first: bool

    def shares(self, number: int, gathered: float) -> tuple[float, float] | None:
        """Bytes before and after the silence between two steps, the later one given.

        It is the longest one of those that about as many bytes follow as are ``gathered`` for a
        pass, as a share of a step; in later stages, which may wait for an activation before they
        gather, also if nothing follows. None if there is none.
        """
        low, high = self.edges[number].tolist()
        busy = np.append(self.ends_ns[number - 1], self.busy_ns[low:high])
        since = np.maximum(busy, max(busy[0], self.busy_ns[low - 1] if low else 0))
        until = np.append(self.start_ns[low:high], self.begins_ns[number])
        rests = until - since
        after = np.append(np.cumsum(self.size[low:high][::-1])[::-1], 0.0)
        wanted = gathered * self.volume
        near = (np.abs(after - wanted) <= NEAR * wanted) & (after > 0)
        near[-1] = not self.first
        if not near.any():
            return None
        at = low + int(np.argmax(np.where(near, rests, -1)))
        return float(self.size[low:at].sum()), float(self.size[at:high].sum())


def with_first_gathers(
    flows: FlowTable, connections: Connections, phases: Phases, pipelines: Pipelines
) -> Phases:
    """Part steps of sharded parameters between passes; unchanged if there are none."""
    if pipelines.length == 1 or not _gather_in_warm_up(flows, phases, pipelines):
        return phases
    lines = {
        i: list(_lines(flows, connections, phases, pipelines, one))
        for i, one in enumerate(phases.classes)
        if one.kind == "dp"
    }
    later = np.setdiff1d(np.arange(phases.count), phases.first_of_epoch).tolist()
    first = [line for own in lines.values() for line in own if line.first]
    gathered = max((line.gathered for line in first), default=0.0)  # less where some is early
    shown = [line.shares(number, gathered) is not None for line in first for number in later]
    if len(shown) < FEWEST or np.mean(shown) < MOST:
        return phases
    classes, gathers = list(phases.classes), []
    for i, own in lines.items():
        step, early = _parted(phases.classes[i], own, later, gathered)
        classes[i] = replace(classes[i], step=step)
        gathers.append(replace(classes[i], step=np.where(early, step, -1)))
    every, begun = (
        moments_of(flows, moved(one, "dp"), phases.endpoints, phases.count)
        for one in (classes, gathers)
    )
    moments = phases.moments | {"dp": every}
    moments["dp"] = repaired(every, phases.dp_group, period_of(moments))
    return replace(phases, classes=tuple(classes), moments=moments, gathers=begun)


def _gather_in_warm_up(flows: FlowTable, phases: Phases, pipelines: Pipelines) -> bool:
    """Whether the first stage has data-parallel traffic before anything comes back to it."""
    rows = np.flatnonzero(pipelines.stage == 0)
    sent = phases.moments["pp"].sent_ns[rows]
    place = np.full(len(flows.addresses), -1)
    place[phases.endpoints[rows]] = np.arange(rows.size)
    back = np.full(sent.shape, np.iinfo(np.int64).max)
    for one in phases.classes:
        if one.kind == "pp":
            to = place[flows.dst[one.one.traffic.row]]
            known = (to >= 0) & (one.step >= 0)
            np.minimum.at(back, (to[known], one.step[known]), one.one.traffic.start_ns[known])
    shown, reduces = np.zeros(sent.shape, np.bool_), np.zeros((rows.size, 1), np.bool_)
    for one in phases.classes:
        if one.kind != "dp":
            continue
        own = place[flows.src[one.one.traffic.row]]
        for row in np.unique(own[own >= 0]).tolist():
            begins = one.one.traffic.start_ns[own == row]
            after = np.searchsorted(begins, sent[row], side="right")
            within = after < np.searchsorted(begins, back[row])
            shown[row] |= within
            reduces[row] = True
    seen = reduces & (sent != MISSING) & (back < np.iinfo(np.int64).max)
    return bool(seen.any() and shown[seen].mean() >= MOST)


def _parted(
    one: KindOf, lines: Sequence[_Line], later: Sequence[int], gathered: float
) -> tuple[Codes, Bools]:
    """Step of each record of a class, and which of them are gathers of the first forward pass.

    Of the latter, only those of the first stage, where they show when a step begins.
    """
    step, early = one.step.copy(), np.zeros(one.step.size, np.bool_)
    for first in (True, False):
        own = [line for line in lines if line.first == first]
        every = (line.shares(number, gathered) for line in own for number in later)
        shares = np.array([one for one in every if one is not None])
        if len(shares) < FEWEST:
            continue
        before, after = np.median(shares, axis=0)
        near = np.abs(shares[:, 1] - after) <= EXACT * max(before + after, 1.0)
        if near.mean() < MOST:
            continue
        for line in own:
            step[line.records], gathers = _steps_of(line, before, after)
            early[line.records] = gathers & first
    return step, early


def _steps_of(line: _Line, before: float, after: float) -> tuple[Codes, Bools]:
    """Step of each record of a line, and which are gathers of the first forward pass.

    Of what moves between two steps, the last bytes up to ``after`` are of the later one, and the
    first ones up to ``before`` of the earlier one.
    """
    count = line.edges.shape[0] - 1
    step, gathers = np.full(line.size.size, -1, np.int32), np.zeros(line.size.size, np.bool_)
    for number, (low, high) in enumerate(line.edges.tolist()):
        size = line.size[low:high]
        middle = np.cumsum(size) - size / 2
        left = size.sum() - middle
        late = (left <= (1 + EXACT) * after) & (number < count)
        early = ~late & (middle <= (1 + EXACT) * before) & (number > 0)
        step[low:high] = np.where(late, number, np.where(early, number - 1, -1))
        gathers[low:high] = late
        if number < count:
            step[high : line.edges[number + 1, 0]] = number
    return step, gathers


def _lines(
    flows: FlowTable, connections: Connections, phases: Phases, pipelines: Pipelines, one: KindOf
) -> Iterator[_Line]:
    """The connections of a class whose sender has passes in every step."""
    traffic, passes = one.one.traffic, phases.moments["pp"]
    of_record = connections.of_row[traffic.row]
    order = order_in_groups(of_record - of_record.min(), traffic.start_ns)
    opens = np.flatnonzero(np.diff(of_record[order], prepend=-1))
    place = {int(end): i for i, end in enumerate(phases.endpoints.tolist())}
    for opening, until in pairwise([*opens.tolist(), order.size]):
        own = order[opening:until].astype(np.int64)
        row = place[int(flows.src[traffic.row[own[0]]])]
        begins, ends = passes.start_ns[row], passes.end_ns[row]
        if pipelines.stage[row] < 0 or (begins == MISSING).any():
            continue
        start = traffic.start_ns[own]
        size = traffic.size[own].astype(np.float64)
        busy = np.maximum.accumulate(traffic.end_ns[own])
        low = np.append(0, np.searchsorted(start, ends))
        high = np.append(np.searchsorted(start, begins), start.size)
        second = np.searchsorted(start, pipelines.second_sent[row] + pipelines.origin_ns)
        sums = np.append(0.0, np.cumsum(size))
        volume = float(np.median(np.diff(sums[high[:-1]]))) if begins.size > 1 else size.sum()
        gathered = (sums[second] - sums[high[:-1]])[np.isfinite(pipelines.second_sent[row])]
        yield _Line(
            own, start, size, busy, np.column_stack((low, np.maximum(low, high))), begins, ends,
            volume, float(np.median(gathered)) / volume if gathered.size and volume else 0.0,
            bool(pipelines.stage[row] == 0),
        )  # fmt: skip
