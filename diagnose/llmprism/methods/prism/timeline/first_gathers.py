"""Steps of pipelines that shard their parameters: divided between the passes of two steps.

Sharded parameters are gathered for every pass, forward and backward. A stage that waits for its
neighbours rests within a step, often for longer than between two steps, so the silences of its
data-parallel traffic do not show where a step ends. The passes do: activations and gradients have
the same steps. What a rank moves between its first activation and its last gradient belongs to
that step. What it moves between the last gradient of one step and the first activation of the next
is, in this order, the reduction of the last gradients, a silence for the update, and the gathers of
the first forward pass. As many bytes follow that silence in every step, in the first stage at
least. Where more moves between two steps, what is neither one nor the other is an evaluation.

Only parameters that are gathered for every pass move while activations leave the first stage and
nothing has come back yet, and before each other message that it sends. This tells them from all
other forms of data parallelism: parameters that are gathered once may move during several short
passes, as those of one chunk after another do, but not during all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.parameters import EQUAL, MOSTLY, QUARTER, SMALL
from llmprism.methods.prism.phases.moments import MISSING, Moments, moments_of, period_of, repaired
from llmprism.methods.prism.phases.phases import Phases, moved
from llmprism.methods.prism.pipelines.pipelines import Pipelines
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.records.traffic import Traffic
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints, order_in_groups
from llmprism.numerics.missing import finite_median

SHOWN = 2  # times between two steps that show something


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
    gathered : share of them in the second forward pass of each step in the first stage, NaN where
        it is unknown, shape (steps,).
    sender : endpoint that sends them.
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
    gathered: Floats
    sender: int
    first: bool

    def rests(self, number: int) -> Ints:
        """Silence before each record between two steps, and before the passes of that step [ns]."""
        low, high = self.edges[number].tolist()
        busy = np.append(self.ends_ns[number - 1], self.busy_ns[low:high])
        since = np.maximum(busy, max(busy[0], self.busy_ns[low - 1] if low else 0))
        rests: Ints = np.append(self.start_ns[low:high], self.begins_ns[number]) - since
        return rests

    def border(self, number: int, gathered: float) -> int | None:
        """First record of a step, given by its number; None if no silence shows it.

        It follows the longest one of the silences between two steps that about as many bytes
        follow as are ``gathered`` for a pass, as a share of a step, and more if a neighbour was
        ahead and sent some of the second pass before the first one had ended. If that is no
        silence, the last message before the passes may be of the second one. In later stages,
        which may wait for an activation before they gather, nothing may follow.
        """
        low, high = self.edges[number].tolist()
        rests = self.rests(number)
        after = np.append(np.cumsum(self.size[low:high][::-1])[::-1], 0.0)
        ahead = np.nan_to_num(max(gathered - self.gathered[number], 0.0))
        own, further = gathered * self.volume, ahead * self.volume
        near = _are_near(after, own, own + further)
        near[-1] = not self.first
        if self.first and high > low and not (rests[near] > 0).any():
            near |= _are_near(after, own + float(self.size[high - 1])) & (rests > 0)
        return low + int(np.argmax(np.where(near, rests, -1))) if near.any() else None

    def steps(self, borders: Mapping[int, int]) -> tuple[Codes, Bools]:
        """Step of each record, and which are gathers of the first forward pass.

        Where no border is known, bytes are counted: as many as usual follow one, and as many as
        usual precede it. What is neither belongs to no step.
        """
        count = self.begins_ns.size
        sums = np.append(0.0, np.cumsum(self.size))
        before, after = (
            float(
                np.median([abs(sums[at] - sums[self.edges[i, side]]) for i, at in borders.items()])
            )
            for side in (0, 1)
        )
        step, gathers = np.full(self.size.size, -1, np.int32), np.zeros(self.size.size, np.bool_)
        for number, (low, high) in enumerate(self.edges.tolist()):
            middle = sums[low:high] + self.size[low:high] / 2
            late = sums[high] - middle <= (1 + EQUAL) * after
            if number in borders:
                late = np.arange(low, high) >= borders[number]
            late &= number < count
            early = ~late & (middle - sums[low] <= (1 + SMALL) * before) & (number > 0)
            step[low:high] = np.where(late, number, np.where(early, number - 1, -1))
            gathers[low:high] = late
            if number < count:
                step[high : self.edges[number + 1, 0]] = number
        return step, gathers


def _gathered(first: Sequence[_Line]) -> float:
    """Share of a step that is gathered for a pass, median; NaN if no line gathers any.

    A gather for the next pass may begin just before or just after an activation leaves.
    """
    own = [line.gathered for line in first if finite_median(line.gathered) > 0]
    return finite_median(np.concatenate([np.empty(0), *own]))


def _are_near(after: Floats, *wanted: float) -> Bools:
    """Which numbers of bytes are about one of those ``wanted``, and not 0."""
    near = [np.abs(after - one) <= SMALL * one for one in wanted]
    found: Bools = np.any(near, axis=0) & (after > 0)
    return found


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
    gathered = _gathered(first)
    if not gathered > 0 or not _in_all_passes(flows, phases, first, QUARTER * gathered):
        return phases
    borders = {
        i: [(line, _borders(line, later, gathered)) for line in own] for i, own in lines.items()
    }
    shown = sum(len(found) for own in borders.values() for line, found in own if line.first)
    if shown < max(SHOWN, MOSTLY * len(first) * len(later)):
        return phases
    least = max(1, MOSTLY * len(later))
    clear = {i: [one for one in own if len(one[1]) >= least] for i, own in borders.items()}
    return _parted(flows, phases, clear)


def _parted(
    flows: FlowTable, phases: Phases, borders: Mapping[int, Sequence[tuple[_Line, dict[int, int]]]]
) -> Phases:
    """``phases`` with steps that begin at the ``borders``: lines of each class, and their borders.

    ``borders`` has data-parallel classes by their index.
    """
    classes, gathers = list(phases.classes), []
    for i, own in borders.items():
        step, early = classes[i].step.copy(), np.zeros(classes[i].step.size, np.bool_)
        for line, found in own:
            step[line.records], begun_by = line.steps(found)
            early[line.records] = begun_by & line.first
        classes[i] = replace(classes[i], step=step)
        gathers.append(replace(classes[i], step=np.where(early, step, -1)))
    every, begun = (
        moments_of(flows, moved(one, "dp"), phases.endpoints, phases.count)
        for one in (classes, gathers)
    )
    moments = phases.moments | {"dp": every}
    moments["dp"] = repaired(every, phases.dp_group, period_of(moments))
    return replace(
        phases, classes=tuple(classes), moments=moments, gathers=begun, gathers_often=True
    )


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
        order = order_in_groups(own + 1, one.one.traffic.start_ns)
        opens = np.searchsorted(own[order], np.arange(rows.size + 1))
        for row in np.flatnonzero(np.diff(opens)).tolist():
            begins = one.one.traffic.start_ns[order[opens[row] : opens[row + 1]]]
            after = np.searchsorted(begins, sent[row], side="right")
            within = after < np.searchsorted(begins, back[row])
            shown[row] |= within
            reduces[row] = True
    seen = reduces & (sent != MISSING) & (back < np.iinfo(np.int64).max)
    return bool(seen.any() and shown[seen].mean() >= MOSTLY)


def _in_all_passes(flows: FlowTable, phases: Phases, first: Sequence[_Line], least: float) -> bool:
    """Whether ranks of the ``first`` stage move parameters between most messages of a step.

    At least that share of the bytes of a step: a rank has computed a pass before each message.
    """
    own = [one for one in phases.classes if one.kind == "pp"]
    row = np.concatenate([one.one.traffic.row for one in own])
    step = np.concatenate([one.step for one in own])
    order = order_in_groups(flows.src[row], flows.start_ns[row])
    row, step = row[order], step[order]
    found = [np.empty(0, np.bool_)]
    for line in first:
        if not finite_median(line.gathered) > 0:
            continue
        low, high = np.searchsorted(flows.src[row], [line.sender, line.sender + 1]).tolist()
        sums = np.append(0.0, np.cumsum(line.size))
        before = sums[np.searchsorted(line.start_ns, flows.start_ns[row[low:high]])]
        same = (np.diff(step[low:high]) == 0) & (step[low + 1 : high] >= 0)
        found.append(np.diff(before)[same] >= least * line.volume)
    moves = np.concatenate(found)
    return bool(moves.size and moves.mean() >= MOSTLY)


def _borders(line: _Line, later: Sequence[int], gathered: float) -> dict[int, int]:
    """First record of those of the ``later`` steps that show it.

    As many bytes as usual precede it, whatever a neighbour that is ahead has sent after it, unless
    that is no silence: a record may begin just before or after the last gradient.
    """
    every = {number: line.border(number, gathered) for number in later}
    found = {number: at for number, at in every.items() if at is not None}
    sums = np.append(0.0, np.cumsum(line.size))
    before = sorted(sums[at] - sums[line.edges[i, 0]] for i, at in found.items())
    usual = before[(len(before) - 1) // 2] if before else 0.0
    for number in found:
        low, high = line.edges[number].tolist()
        away, rests = np.abs(sums[low : high + 1] - sums[low] - usual), line.rests(number)
        near = int(np.argmin(away))
        if away[near] <= EQUAL * usual and rests[near] >= QUARTER * rests[found[number] - low]:
            found[number] = low + near
    return found


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
        if pipelines.stage[row] >= 0 and (passes.start_ns[row] != MISSING).all():
            yield _line(traffic, own, pipelines, (row, int(phases.endpoints[row])), passes)


def _line(
    traffic: Traffic, own: Ints, pipelines: Pipelines, at: tuple[int, int], passes: Moments
) -> _Line:
    """The records ``own`` of a connection; ``at``: its sender in ``passes``, and as an endpoint."""
    row, sender = at
    begins, ends = passes.start_ns[row], passes.end_ns[row]
    start = traffic.start_ns[own]
    size = traffic.size[own].astype(np.float64)
    busy = np.maximum.accumulate(traffic.end_ns[own])
    low = np.append(0, np.searchsorted(start, ends))
    high = np.append(np.searchsorted(start, begins), start.size)
    second = np.searchsorted(start, pipelines.second_sent[row] + pipelines.origin_ns)
    sums = np.append(0.0, np.cumsum(size))
    volume = float(np.median(np.diff(sums[high[:-1]]))) if begins.size > 1 else float(size.sum())
    volume = max(volume, 1.0)
    gathered = (sums[second] - sums[high[:-1]]) / volume
    gathered[~np.isfinite(pipelines.second_sent[row])] = np.nan
    return _Line(
        own, start, size, busy, np.column_stack((low, np.maximum(low, high))), begins, ends,
        volume, gathered, sender, bool(pipelines.stage[row] == 0),
    )  # fmt: skip
