"""The records of a job as one table, those of attempts that finished no step included.

A lane is a directed pair of endpoints and a kind of traffic, whatever connections carry it. A cell
is a lane in one step. What a cell has moved at some time is a share of what its lane moves in a
usual step: records send evenly from their begin to their end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.records.connections import LIGHTER
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints
from llmprism.numerics.missing import nanmedian

LEAST = 1e-3  # of a usual record: less is no chunk of a collective, but control traffic


@dataclass(frozen=True)
class Records:
    """Records of one job in order of time; arrays of equal length, then those of lanes.

    Attributes
    ----------
    lane : number of the lane.
    step : training step, -1 where it is in none.
    start_ns, end_ns, size : begin and end [ns], bytes.
    src, dst, reduces : endpoints of each lane, and whether it carries data-parallel traffic.
    steps : number of steps.
    """

    lane: Ints
    step: Ints
    start_ns: Ints
    end_ns: Ints
    size: Floats
    src: Codes
    dst: Codes
    reduces: Bools
    steps: int

    @cached_property
    def volume(self) -> Floats:
        """Bytes of each lane and step, shape (lanes, steps)."""
        known = self.step >= 0
        cell = self.lane[known] * self.steps + self.step[known]
        volume = np.zeros(self.src.size * self.steps)
        np.add.at(volume, cell, self.size[known])
        return volume.reshape(-1, self.steps)

    @cached_property
    def usual(self) -> Floats:
        """Bytes of each lane in a step in which it moves any, median; 0 if it moves none."""
        moved = np.where(self.volume > 0, self.volume, np.nan)
        usual: Floats = np.nan_to_num(nanmedian(moved, axis=1))
        return usual

    @cached_property
    def longest_silence_ns(self) -> int:
        """The longest time without any record between two of one step [ns]."""
        known = np.flatnonzero(self.step >= 0)
        silence = self.start_ns[known][1:] - np.maximum.accumulate(self.end_ns[known])[:-1]
        within = self.step[known][1:] == self.step[known][:-1]
        return int(silence[within].max(initial=0))


class Curves:
    """The share that each cell has moved, by time.

    All arguments have shape (records,): the cell of each record, its begin and end [ns], and the
    share of a usual step that it holds.
    """

    def __init__(self, cell: Ints, start_ns: Ints, end_ns: Ints, share: Floats) -> None:
        length_ns = np.maximum(end_ns - start_ns, 1)
        at_ns = np.concatenate((start_ns, start_ns + length_ns))
        of = np.concatenate((cell, cell))
        order = np.lexsort((at_ns, of))
        self._at_ns, of = at_ns[order], of[order]
        pace = np.concatenate((share / length_ns, -share / length_ns))[order]
        pace = np.maximum(np.cumsum(pace), 0.0)
        same = of[1:] == of[:-1]
        grows = np.where(same, pace[:-1] * np.diff(self._at_ns), 0.0)
        moved = np.concatenate(([0.0], np.cumsum(grows)))
        first = np.searchsorted(of, of)
        self._moved = moved - moved[first] if of.size else moved[:0]
        self._of, self._pace = of, pace
        self._scale = 2 * float(self._moved.max(initial=1.0))
        self._key = of + self._moved / self._scale

    def when_ns(self, cell: Ints, share: Floats, beyond: bool) -> Floats:
        """When each cell had moved a positive share, or went ``beyond`` it; infinite for never."""
        key = cell + share / self._scale
        more: Ints = np.searchsorted(self._key, key, side="right" if beyond else "left")
        last, more = np.maximum(more - 1, 0), np.minimum(more, self._of.size - 1)
        known = (self._of[last] == cell) & (self._of[more] == cell) & (last < more)
        rest = np.maximum(share - self._moved[last], 0.0)
        with np.errstate(over="ignore"):  # what moves nothing takes for ever
            took_ns = rest / np.maximum(self._pace[last], np.finfo(np.float64).tiny)
        at_ns = self._at_ns[last] + took_ns
        when_ns: Floats = np.where(known, at_ns, np.inf)
        return when_ns


@measured_once
def records_of(context: Context, job: JobView) -> Records:
    """The table of ``job``."""
    flows = context.flows
    row, kind = _rows_of(context, job)
    step_of = np.full(len(flows), -1)
    for part in job.phases.classes:
        step_of[part.one.traffic.row] = part.step
    nodes = len(flows.addresses)
    code = (kind * nodes + flows.src[row]) * nodes + flows.dst[row]
    lanes, lane = np.unique(code, return_inverse=True)
    src, dst = lanes // nodes % nodes, lanes % nodes
    return Records(
        lane, step_of[row], flows.start_ns[row], flows.end_ns[row],
        flows.bytes[row].astype(np.float64), src, dst, lanes < nodes**2, job.count,
    )  # fmt: skip


def _rows_of(context: Context, job: JobView) -> tuple[Ints, Ints]:
    """Rows of the job in order, and the kind of each: 0 if it is data-parallel.

    Where a record holds all bytes of a step, the first chunks of one that is never finished are as
    short beside it as control traffic. Where records are seen twice, the second ones look like
    these: none of them is added.
    """
    connections, parts = context.connections, job.phases.classes
    free, pair = attempts_of(context, job), pairs_of(context)
    least = np.full(len(connections), np.inf)
    of = np.full(len(connections), -1)
    for number, part in enumerate(parts):
        own = part.one.connections
        usual = np.full(len(connections), np.inf)
        np.minimum.at(usual, pair[own], connections.typical_bytes[own])
        added = free[np.isin(pair[free], pair[own]) & (of[free] < 0)]
        held = 2 * max(job.pipelines.messages, 1) if part.kind == "pp" else LIGHTER
        least[own], least[added] = usual[pair[own]] * LEAST, usual[pair[added]] / held
        of[own] = of[added] = number
    part_of = of[connections.of_row]
    carries = (part_of >= 0) & (connections.size >= least[connections.of_row])
    short = connections.size * LIGHTER < connections.typical_bytes[connections.of_row]
    twice = np.bincount(part_of[carries & connections.small & ~short], minlength=len(parts)) > 0
    chosen = carries & (~connections.small | (short & ~twice[part_of]))
    for number, part in enumerate(parts):
        part_of[part.one.traffic.row] = number
        chosen[part.one.traffic.row] = True
    names = ["dp", *sorted({part.kind for part in parts} - {"dp"})]
    kinds = np.array([names.index(part.kind) for part in parts])
    row: Ints = np.flatnonzero(chosen)
    return row, kinds[part_of[row]]


@measured_once
def attempts_of(context: Context, job: JobView) -> Ints:
    """Connections of attempts that finished no step: no job was found in them.

    They lead where those of the job do, before, between, or after its attempts.
    """
    connections, pair = context.connections, pairs_of(context)
    free = ~connections.answer
    for other in context.jobs:
        for part in other.phases.classes:
            free[part.one.connections] = False
    own = [part.one.connections for part in job.phases.classes]
    begin = np.sort([connections.first_ns[each].min() for each in own])
    end = np.sort([connections.last_ns[each].max() for each in own])
    free &= np.isin(pair, pair[np.concatenate(own)])
    before = np.searchsorted(end, connections.first_ns)
    attempts: Ints = np.flatnonzero(free & (before == np.searchsorted(begin, connections.last_ns)))
    return attempts


def pairs_of(context: Context) -> Ints:
    """A number for the two ends of each connection."""
    nodes = len(context.flows.addresses)
    every = context.connections.src.astype(np.int64) * nodes + context.connections.dst
    pair: Ints = np.unique(every, return_inverse=True)[1].ravel()
    return pair
