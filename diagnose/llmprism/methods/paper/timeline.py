"""Stage 3, timeline: the activity of each rank, step by step.

The intervals between the starts of an address's DP flows, in both directions,
are divided into steps. The end of the last DP flow of a step is the end of the step (premise:
every step ends with DP traffic), and the next step starts there. DP and PP flows become spans
of the rank; the time between them counts as compute.

The publication leaves the following open:

- The first step has no predecessor. Its start is estimated: the rank's first flow of any
  kind, minus the median *lead* (first flow after a step's start, minus that start) of its
  later steps. That is correct for a rank whose first flow is one it sends, after computation.
  A rank that first receives (a later pipeline stage) waits for others, each time differently;
  its start is the median start of the ranks of its job that send first.
- Traffic after the last DP flow is an unfinished step and is not reported.
- A step's confidence is the product of its two boundaries': a cut counts with its posterior
  mass; the start of the first step and the end of the last, which no cut confirms, with 1/2.
- A rank without DP flows has no steps. If the DP flows of a step all start together, a rank shows
  no gaps between steps (every interval is one), and all its records are one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.parts import PART_ROWS
from llmprism.methods.paper.cutting import cut_steps
from llmprism.model import DP, PP, SPAN_KINDS, Kinds, Pairs, Spans, Steps, Timeline
from llmprism.numerics.arrays import Bools, Codes, Grouped, Ints, grouped
from prism_common.compiled import compiled, compiled_part

_UNCONFIRMED = 0.5  # a boundary without a cut
_COMPUTE = SPAN_KINDS.index("compute")


def reconstruct(flows: FlowTable, pairs: Pairs) -> Timeline:
    """Find the steps of every rank, and its activity in them."""
    touches = _touches(flows, pairs)
    by, is_dp = touches.by, touches.is_dp
    dp = Grouped(by.order[is_dp], np.concatenate(([0], np.cumsum(is_dp)))[by.offsets])
    steps, dp_row = _steps(flows, dp)
    steps = _with_first_start(steps, flows, touches, pairs)
    row = np.empty(by.order.size, dtype=np.int32)
    row[is_dp] = dp_row
    pp = ~is_dp
    row[pp] = rows_at(flows.start_ns[by.order[pp]], by.codes[pp], steps, by.sizes.size)
    of_flow = np.full(len(flows), -1, dtype=np.int32)
    sent = is_dp & touches.sent
    of_flow[by.order[sent]] = row[sent]
    return Timeline(steps, _spans(flows, touches, row, steps), of_flow)


@dataclass(frozen=True)
class _Touches:
    """Every DP or PP flow twice: at the address that sends it, and at the one that receives it.

    ``by`` groups flows by address; ``is_dp`` and ``sent`` mark DP flows and senders,
    in the order of ``by.order``.
    """

    by: Grouped
    is_dp: Bools
    sent: Bools


def _touches(flows: FlowTable, pairs: Pairs) -> _Touches:
    kind = pairs.kind[pairs.of_flow]
    flow = np.flatnonzero((kind == DP) | (kind == PP)).astype(np.int32)
    ends = np.column_stack((flows.src[flow], flows.dst[flow])).ravel()
    entries = grouped(ends, len(flows.addresses))
    order = flow[entries.order // 2]
    return _Touches(Grouped(order, entries.offsets), kind[order] == DP, entries.order % 2 == 0)


def _steps(flows: FlowTable, dp: Grouped) -> tuple[Steps, Ints]:
    """Cut the DP touches of each address; return the steps and the step row of each touch."""
    cuts = cut_steps(flows.start_ns, flows.end_ns, dp)
    codes = dp.codes
    opens = np.ones(codes.size, dtype=np.bool_)
    opens[1:] = (np.diff(codes) != 0) | (np.diff(cuts.step) != 0)
    first = np.flatnonzero(opens)
    address, step = codes[first].astype(np.int32), cuts.step[first].astype(np.int64)
    end = np.empty(0, dtype=np.int64)
    if first.size:
        end = np.maximum.reduceat(flows.end_ns[dp.order], first)
        end = pd.Series(end).groupby(address).cummax().to_numpy()  # ends never decrease
    dp_start = flows.start_ns[dp.order[first]]
    start = np.where(step > 0, np.roll(end, 1), dp_start)
    opened = np.where(step > 0, cuts.sureness[first], _UNCONFIRMED)
    closed = np.where(np.roll(step, -1) > 0, np.roll(opened, -1), _UNCONFIRMED)
    steps = Steps(address, step, start, end, dp_start, end, opened * closed)
    return steps, np.cumsum(opens) - 1


def _with_first_start(steps: Steps, flows: FlowTable, touches: _Touches, pairs: Pairs) -> Steps:
    """Replace the start of each address's first step by an estimate from its later steps."""
    by = touches.by
    event_ns = flows.start_ns[by.order]
    at = _row_at(steps.start_ns - 1, steps.address, event_ns, by.offsets)
    lead = (event_ns[at] - steps.start_ns).astype(np.float64)
    lead[(steps.step == 0) | (at < 0)] = np.nan
    typical = pd.Series(lead).groupby(steps.address).transform("median").fillna(0.0)
    first = np.flatnonzero(steps.step == 0)
    address = steps.address[first]
    job = np.zeros(len(flows.addresses), dtype=np.int32)
    job[pairs.src] = pairs.job
    job[pairs.dst] = pairs.job
    opening = by.offsets[address]
    event = event_ns[opening]
    origin = flows.start_ns[0] if len(flows) else 0  # keeps nanoseconds exact in floats
    guess = pd.Series((event - origin) - typical.to_numpy()[first])
    sends_first = _sends_first(event, opening, by.offsets[address + 1], event_ns, touches.sent)
    of_job = guess.where(sends_first).groupby(job[address]).transform("median")
    guess = guess.where(sends_first | of_job.isna(), of_job)
    start = steps.start_ns.copy()
    start[first] = np.minimum(np.rint(guess.to_numpy()).astype(np.int64) + origin, event)
    return replace(steps, start_ns=start)


@compiled
def _sends_first(event: Ints, low: Ints, high: Ints, event_ns: Ints, sent: Bools) -> Bools:
    """Whether an address sends one of its earliest flows."""
    found = np.zeros(event.size, dtype=np.bool_)
    for row in range(event.size):
        i = low[row]
        while i < high[row] and event_ns[i] == event[row]:  # in order of start
            found[row] |= sent[i]
            i += 1
    return found


@compiled_part
def _first_above(ordered: Ints, low: int, high: int, limit: int) -> int:
    """Return the first index in [low, high) whose value exceeds ``limit``, else ``high``."""
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] > limit:
            high = middle
        else:
            low = middle + 1
    return low


def rows_at(moment_ns: Ints, address: Ints, steps: Steps, addresses: int) -> Ints:
    """Return the step of an address at a given time.

    Parameters
    ----------
    moment_ns, address : shape (n,); ``addresses`` is the number of endpoints.

    Returns
    -------
    Rows of ``steps``, -1 after the address's last step, shape (n,).
    """
    offsets = np.searchsorted(steps.address, np.arange(addresses + 1))
    return _row_at(moment_ns, address, steps.end_ns, offsets)


@compiled
def _row_at(moment: Ints, address: Codes | Ints, end_ns: Ints, offsets: Ints) -> Ints:
    """Return the address's first row that ends after each moment [ns], -1 if there is none."""
    row = np.full(moment.size, -1, dtype=np.int64)
    for i in range(moment.size):
        low, high = offsets[address[i]], offsets[address[i] + 1]
        j = _first_above(end_ns, low, high, moment[i])
        if j < high:
            row[i] = j
    return row


@dataclass(frozen=True)
class _SpanMaker:
    """Merges each step's flows of a kind, clipped to the step, and finds the time between them.

    Attributes
    ----------
    start_ns, end_ns : of all flows [ns].
    flow, kind : those that belong to a step (one at both of its addresses comes twice), in order of
        steps, and whether each is DP (0) or PP (1).
    offsets : flows of step i are ``flow[offsets[i]:offsets[i + 1]]``, shape (steps + 1,).
    """

    start_ns: Ints
    end_ns: Ints
    flow: Codes
    kind: Kinds
    offsets: Ints
    steps: Steps

    def __call__(self) -> Iterator[Spans]:
        """All spans, in parts of about as many flows."""
        every = np.arange(PART_ROWS, int(self.offsets[-1]), PART_ROWS)
        edges = np.searchsorted(self.offsets, every).tolist()
        edges = [0, *edges, len(self.steps)]
        for first, last in pairwise(edges):
            inputs = (
                self.start_ns, self.end_ns, self.flow, self.kind, self.offsets[first : last + 1],
                self.steps.start_ns[first:last], self.steps.end_ns[first:last],
            )  # fmt: skip
            room = _room(_lay_out(*inputs, *_room(0)))
            _lay_out(*inputs, *room)
            room[0][:] += first
            yield Spans(*room)


def _spans(flows: FlowTable, touches: _Touches, row: Codes, steps: Steps) -> _SpanMaker:
    """What makes the spans, from the step of each touch (-1: none)."""
    by_row = grouped(np.where(row >= 0, row, len(steps)), len(steps) + 1)  # the last: no step
    offsets = by_row.offsets[:-1]
    entry = by_row.order[: offsets[-1]]
    kind = np.where(touches.is_dp[entry], 0, 1).astype(np.int8)
    flow = touches.by.order[entry]
    return _SpanMaker(flows.start_ns, flows.end_ns, flow, kind, offsets, steps)


def _room(count: int) -> tuple[Codes, Kinds, Ints, Ints]:
    """Row, kind, start and end of so many spans, not filled."""
    return (
        np.empty(count, np.int32), np.empty(count, np.int8),
        np.empty(count, np.int64), np.empty(count, np.int64),
    )  # fmt: skip


@compiled
def _lay_out(
    start_ns: Ints,
    end_ns: Ints,
    flow: Codes,
    kind: Kinds,
    offsets: Ints,
    step_start: Ints,
    step_end: Ints,
    rows: Codes,
    kinds: Kinds,
    starts: Ints,
    ends: Ints,
) -> int:
    """Count the spans of every step, and write them if there is room (``rows`` and the others)."""
    count = 0
    out = (rows, kinds, starts, ends)
    for row in range(step_start.size):
        own = range(offsets[row], offsets[row + 1])
        low, high = step_start[row], step_end[row]
        for wanted in range(_COMPUTE):
            since, until = low, low
            for i in own:
                if kind[i] != wanted:
                    continue
                start, end = start_ns[flow[i]], end_ns[flow[i]]
                if start > until:
                    count = _put(out, count, row, wanted, since, until)
                    since = until = min(start, high)
                until = max(until, min(end, high))
            count = _put(out, count, row, wanted, since, until)
        until = low
        for i in own:
            count = _put(out, count, row, _COMPUTE, until, min(start_ns[flow[i]], high))
            until = max(until, min(end_ns[flow[i]], high))
        count = _put(out, count, row, _COMPUTE, until, high)
    return count


@compiled_part
def _put(
    out: tuple[Codes, Kinds, Ints, Ints], at: int, row: int, kind: int, start: int, end: int
) -> int:
    """Write one span unless it is empty; return the index of the next one."""
    if end <= start:
        return at
    if at < out[0].size:
        out[0][at], out[1][at], out[2][at], out[3][at] = row, kind, start, end
    return at + 1
