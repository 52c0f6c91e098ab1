"""Where a job stopped: what it moved after its last finished step, and before a long silence.

A job stops where nothing of it is sent for many steps, or for good. What it moved since its last
finished step is the tail: the part of a step that shows how far each rank came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.parameters import MOSTLY
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.stops.records import Records, attempts_of, records_of
from llmprism.numerics.arrays import Bools, Ints
from llmprism.numerics.missing import finite_median

FINISHED = 0.95  # of the usual bytes, where no exchange of gradients shows that a step has ended
STALLED = 20.0  # steps: no transfer, evaluation or save of a job that goes on takes as long
LATER = 2.0  # times its longest silence in finished steps: what a rank that goes on never rests


@dataclass(frozen=True)
class Tail:
    """What a job moved after its last finished step, before it went on or the records end.

    Attributes
    ----------
    step : number of the unfinished step.
    begin_ns, end_ns : of the finished step's end, and of the last record.
    next_ns : when the job went on; None if it never did.
    until_ns : the same, or the end of the records if it never did.
    again : whether it began again then, with other connections or after a break of its rhythm.
    at : places in the table of records.
    waiting : places of transfers that began before the traffic ended, and ended when it went on.
    """

    step: int
    begin_ns: int
    end_ns: int
    next_ns: int | None
    until_ns: int
    again: bool
    at: Ints
    waiting: Ints


def tails_of(context: Context, job: JobView) -> Iterator[Tail]:
    """The unfinished step before each silence of ``job``, where there is one.

    Gradients end a step. Replicas that share their servers exchange them where nothing is seen.
    """
    records = records_of(context, job)
    ending, ends = records.reduces | ~records.reduces.any(), np.zeros(records.steps, np.int64)
    at = np.flatnonzero(ending[records.lane] & (records.step >= 0))
    np.maximum.at(ends, records.step[at], records.end_ns[at])
    volume = records.volume[ending].sum(axis=0)
    least = (MOSTLY if records.reduces.any() else FINISHED) * finite_median(volume[volume > 0])
    whole = (volume > 0) & (volume >= least)
    lasts_ns = records.end_ns - records.start_ns
    waits: Bools = lasts_ns > LATER * job.period_ns  # longer than any of a step that goes on
    stalled = lasts_ns > STALLED * job.period_ns
    whole[records.step[stalled & (records.step >= 0)]] = False  # its rest came when it went on
    since_ns = int(context.flows.start_ns.min()) - 1
    for then in _attempts(context, job, records, ~waits):
        next_ns = then[0]
        done = np.flatnonzero(whole & (next_ns is None or ends <= next_ns))
        last, end_ns = (int(done[-1]), int(ends[done[-1]])) if done.size else (-1, 0)
        if next_ns is not None or end_ns > since_ns:
            yield _tail(context, job, last, (since_ns, max(since_ns, end_ns)), then, waits)
        since_ns = (next_ns or 0) - 1


def _attempts(
    context: Context, job: JobView, records: Records, moving: Bools
) -> list[tuple[int | None, bool]]:
    """When ``job`` went on after each of its attempts, and whether it began again; None: never."""
    begins = []
    for first in job.phases.first_of_epoch.tolist():
        if first < job.count:
            own = records.start_ns[moving & (records.step == first)]
            begins.append(int(own[0] if own.size else job.start_ns[first]))
    start = records.start_ns[moving]
    latest = np.maximum.accumulate(records.end_ns[moving])
    after = 1 + np.flatnonzero(start[1:] - latest[:-1] > STALLED * job.period_ns)
    before = attempts_of(context, job)
    if not (context.connections.last_ns[before] < begins[0]).any():
        begins = begins[1:]
    again = {*begins}
    every = sorted({*begins, *start[after].tolist()})
    return [*((at, at in again) for at in every), (None, False)]


def _tail(
    context: Context, job: JobView, last: int, extent: tuple[int, int],
    then: tuple[int | None, bool], waits: Bools,
) -> Tail:  # fmt: skip
    """What was moved after step ``last``: ``extent`` is the begin of the attempt, and its end."""
    records, (next_ns, again), begin_ns = records_of(context, job), then, extent[1]
    until_ns = context.flows.recorded_ns[1] if next_ns is None else next_ns
    at = _after(records, last, _own_ends(context, job, last, extent, next_ns), next_ns)
    moved = at[~waits[at]]
    end_ns = int(records.end_ns[moved].max(initial=begin_ns))
    return Tail(last + 1, begin_ns, end_ns, next_ns, until_ns, again, moved, at[waits[at]])


def _own_ends(
    context: Context, job: JobView, last: int, extent: tuple[int, int], next_ns: int | None
) -> Ints:
    """When each address ended step ``last`` [ns]; ranks do not all begin the next one together."""
    end_ns, records = extent[1], records_of(context, job)
    ends = np.full(len(context.flows.addresses), end_ns)
    own = job.phases.moments["dp"].end_ns[:, last]
    ends[job.phases.endpoints] = np.where(own == MISSING, end_ns, np.clip(own, *extent))
    later = _after(records, last, ends, next_ns)
    later = later[records.reduces[records.lane[later]] & (records.start_ns[later] < end_ns)]
    for side in (records.src, records.dst):  # counted into another step
        np.maximum.at(ends, side[records.lane[later]], records.end_ns[later])
    return ends


def _after(records: Records, last: int, ends_ns: Ints, next_ns: int | None) -> Ints:
    """Records after step ``last``: those in no step after their sender's end of it [ns]."""
    free = records.start_ns > ends_ns[records.src[records.lane]]  # a coarse clock: both as one
    inside = np.where(records.step < 0, free, records.step > last)
    if next_ns is not None:
        inside &= records.start_ns < next_ns
    found: Ints = np.flatnonzero(inside)
    return found
