"""Records that stalled: they last far longer than their bytes take, and their neighbours do not.

A message that has a record to itself, or a part of a collective, waits for nobody once it is under
way. If it lasts much longer than its bytes take, the network held it up. A slow part of the network
holds up all that a connection moves in a step, and so do transfers that compete with it. What stops
for a moment holds up what is under way, all at once, and the rest of the step is as fast as ever.

A record may hold several messages, with silences between them that the exporter bridged. No such
silence is longer than the shortest one at which it began another record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.classes.kind_of import KindOf
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.series import lower_level
from llmprism.methods.prism.pipelines.last_stage import may_block
from llmprism.methods.prism.pipelines.micro_batches import usual_size
from llmprism.numerics.arrays import (
    Bools,
    Codes,
    Floats,
    Ints,
    latest_in_groups,
    order_in_groups,
    weighted_quantile,
)
from llmprism.numerics.missing import nanmedian

LEAST = 0.03  # of a step, that a stall exceeds
MESSAGES = 12.0  # usual lengths of a message, by which one that stalled is longer
COLLECTIVES = 1.0  # ... of a part of a collective, which lasts for a good part of a step
USUAL = 0.9  # quantile of the lengths of messages: longer ones do not show what is usual
MOSTLY = 0.5  # share of the records of pipelines that hold one message each
FEWEST = 3  # messages of a connection in a step: several stops would show a slow link
HALF = 0.5  # of the steps
SELDOM = 0.34  # stops in a step for each message of a connection: a slow link has one for each
AS_EVER = 1.5  # times what they take in other steps


@dataclass(frozen=True)
class Stalls:
    """Records that stalled: row, step, time beyond the usual [ns]; arrays of equal length.

    ``message`` is whether each is of a pipeline, so that it waits for nobody once it is under way.
    """

    row: Codes
    step: Ints
    lost_ns: Floats
    message: Bools

    @property
    def messages(self) -> Stalls:
        """Those of pipelines alone."""
        own = self.message
        return Stalls(self.row[own], self.step[own], self.lost_ns[own], self.message[own])


@dataclass(frozen=True)
class _Records:
    """Records of a class, and how long each would last if nothing held it up; equal lengths.

    Attributes
    ----------
    row, cell, held : row, number of connection and step, messages.
    start_ns, length_ns, expected_ns : begin, how long it lasts, and how long its bytes take.
    bridged_ns : silences that it may hold, at most.
    least_ns : what a stall exceeds.
    """

    row: Codes
    cell: Ints
    held: Floats
    start_ns: Ints
    length_ns: Floats
    expected_ns: Floats
    bridged_ns: Floats
    least_ns: Floats


def stalled_records(context: Context, job: JobView) -> Stalls:
    """The records of ``job`` that stalled; none with TCP, where a message waits for its receiver.

    Of pipelines and of collectives between replicas.
    """
    none = np.empty(0)
    found = [Stalls(none.astype(np.int32), none.astype(np.int64), none, none.astype(np.bool_))]
    for part in job.phases.classes:
        size = part.one.traffic.row.size
        if part.kind not in {"pp", "dp"} or not size or not job.period_ns > 0:
            continue
        if not may_block(context.flows, [part]):
            records = _records(context, job, part)
            found += [] if records is None else [_stalled(job, records, message=part.kind == "pp")]
    arrays = zip(*((one.row, one.step, one.lost_ns, one.message) for one in found), strict=True)
    row, step, lost_ns, message = (np.concatenate(own) for own in arrays)
    return Stalls(row, step, lost_ns, message)


def _records(context: Context, job: JobView, part: KindOf) -> _Records | None:
    """The records of a class; None if those of a pipeline do not show single messages."""
    known, cell = part.cells(context.connections, job.count)
    row, size = part.one.traffic.row[known], part.one.traffic.size[known].astype(np.float64)
    length_ns = context.flows.lengths_ns(row).astype(np.float64)
    start_ns = context.flows.start_ns[row]
    tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
    gap_ns = _shortest_silence_ns(context, row, cell // job.count)
    if part.kind == "dp":
        expected_ns = size * _usual_pace(cell // job.count, length_ns / size, size)
        least_ns = COLLECTIVES * expected_ns
        each, gaps_ns = np.ones(row.size), np.full(row.size, gap_ns)
        return _Records(row, cell, each, start_ns, length_ns, expected_ns, gaps_ns, least_ns)
    held = np.maximum(np.rint(size / usual_size(part.one.traffic.size[known])), 1.0)
    alone = held == 1
    if not alone.size or alone.mean() < MOSTLY:
        return None
    single_ns = length_ns[alone]
    one_ns = float(single_ns[single_ns <= np.quantile(single_ns, USUAL)].mean())
    least_ns = np.full(row.size, MESSAGES * one_ns + tick_ns)
    gaps_ns = (held - 1) * gap_ns
    return _Records(row, cell, held, start_ns, length_ns, held * one_ns, gaps_ns, least_ns)


def _usual_pace(connection: Ints, pace: Floats, size: Floats) -> Floats:
    """The pace of most bytes of the connection of each record [ns/byte]."""
    at, usual = weighted_quantile(connection, pace, size, 0.5)
    by_connection = np.zeros(int(connection.max(initial=0)) + 1)
    by_connection[at] = usual
    found: Floats = by_connection[connection]
    return found


def _shortest_silence_ns(context: Context, row: Codes, connection: Ints) -> float:
    """The shortest silence between two records of one connection [ns]; 0 if there is none."""
    order = order_in_groups(connection, context.flows.start_ns[row])
    row, connection = row[order], connection[order]
    silent_ns = context.flows.start_ns[row[1:]] - context.flows.end_ns[row[:-1]]
    silent_ns = silent_ns[(connection[1:] == connection[:-1]) & (silent_ns > 0)]
    return float(silent_ns.min(initial=np.iinfo(np.int64).max)) if silent_ns.size else 0.0


def _stalled(job: JobView, every: _Records, *, message: bool) -> Stalls:
    """Those that are longer than expected, and than the longest ones of other steps are."""
    extra_ns = every.length_ns - every.expected_ns - every.bridged_ns
    cells = (int(every.cell.max(initial=0)) // job.count + 1) * job.count
    longest = np.full(cells, np.nan)
    np.fmax.at(longest, every.cell, extra_ns)
    usual_ns = _usual_ns(longest.reshape(-1, job.count))[every.cell // job.count]
    lost_ns = extra_ns - np.maximum(usual_ns, 0.0)
    longest_ns = every.expected_ns + np.maximum(usual_ns, 0.0)
    late = lost_ns > np.maximum(np.maximum(every.least_ns, longest_ns), LEAST * job.period_ns)
    late &= _others_as_ever(every, late, cells)
    step = every.cell[late] % job.count
    return Stalls(every.row[late], step, lost_ns[late], np.full(step.size, message))


def _usual_ns(longest_ns: Floats) -> Floats:
    """The usual value of each series, (connections, steps): the median, or that of a lower level.

    A NIC may stop in most steps; the first ones show what is usual. The median shows it where these
    are half of them or more.
    """
    lower_ns = lower_level(longest_ns, HALF)
    usual_ns: Floats = np.fmin(nanmedian(longest_ns, axis=1), lower_ns)
    return usual_ns


def _others_as_ever(every: _Records, late: Bools, cells: int) -> Bools:
    """Whether the connection and step of each record have few stops, and are as fast as ever."""
    messages = np.bincount(every.cell, every.held, cells)
    few = _stops(every, np.flatnonzero(late), cells) <= np.maximum(1.0, SELDOM * messages)
    took_ns = np.bincount(every.cell, every.length_ns * ~late, cells)
    usual_ns = np.bincount(every.cell, (every.expected_ns + every.bridged_ns) * ~late, cells)
    found: Bools = few & (messages >= FEWEST) & (took_ns <= AS_EVER * usual_ns)
    return found[every.cell]


def _stops(every: _Records, late: Ints, cells: int) -> Ints:
    """How many stops held up the records ``late``, by connection and step, shape (cells,).

    Records that are under way at the same time are held up by one stop.
    """
    order = late[np.lexsort((every.start_ns[late], every.cell[late]))]
    if not order.size:
        return np.zeros(cells, np.int64)
    cell, start_ns = every.cell[order], every.start_ns[order]
    ended_ns = latest_in_groups(cell, start_ns + every.length_ns[order].astype(np.int64))
    begins = np.ones(order.size, np.bool_)
    begins[1:] = (np.diff(cell) != 0) | (start_ns[1:] >= ended_ns[:-1])
    return np.bincount(cell[begins], minlength=cells)
