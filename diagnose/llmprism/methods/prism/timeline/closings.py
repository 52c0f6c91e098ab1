"""What ends a step after its gradients: collectives that come once, at once, and in every step.

Gradients of an embedding that the first and the last stage share are reduced when all others are.
The norm of all gradients and the loss take a few bytes, but all ranks wait for them, the early ones
for the late ones. So a rank has ended a step when the last of these has ended.

They are distinguished from control messages and services by time and regularity. Such a collective
begins at once when the last of its ranks has ended what comes before, and has the same bytes in
nearly all steps. What a rank sends to begin the next step comes after its update. Size shows
nothing: a norm has the packets of an acknowledgement. Where servers reduce gradients inside,
the last traffic of a rank is that of its passes, so a collective may begin later after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.parameters import EQUAL, NEARLY, SMALL
from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian

PASSES = ("dp", "pp", "tp", "cp", "ep")  # kinds of traffic that begin or end a step themselves
MOST = 8  # records of a connection in a step: a ring may send in several steps, and in parts
REDUCED = 0.75  # of the same, if NVLink reduces gradients before: 27 ps to 9 ps of an update
LATEST = np.iinfo(np.int64).max  # [ns]


@dataclass(frozen=True)
class Closings:
    """Records that may end a step, in order of their starts, equal length arrays.

    Attributes
    ----------
    line : number of the connection, from 0.
    src, dst : endpoints of the job.
    start_ns, end_ns : [ns].
    size : bytes.
    begin_ns : when each endpoint's next step after each step begins, at the latest [ns], shape
        (endpoints, steps).
    lasts : steps of the attempts in which each connection has records, shape (connections,): a
        job that restarts opens other ones.
    """

    line: Ints
    src: Ints
    dst: Ints
    start_ns: Ints
    end_ns: Ints
    size: Ints
    begin_ns: Ints
    lasts: Ints


def find_closings(flows: FlowTable, connections: Connections, phases: Phases) -> Closings:
    """Collect the records of what has no part in the passes and the gradients of a step."""
    place = np.full(len(flows.addresses), -1)
    place[phases.endpoints] = np.arange(phases.endpoints.size)
    own = [one.connections for one in phases.classes if one.kind in PASSES]
    free = (place[connections.src] >= 0) & (place[connections.dst] >= 0)
    free[np.concatenate([np.empty(0, np.int64), *own])] = False
    chosen = np.flatnonzero(free)
    first = _first_ns(phases)
    lasts = _lasts(flows, connections, phases, chosen, first)
    records = connections.records[chosen]
    some = (records >= NEARLY * lasts) & (records <= MOST * (lasts + 1))
    chosen, lasts = chosen[some], lasts[some]
    rows = np.concatenate([np.empty(0, np.int32), *map(connections.by.rows, chosen.tolist())])
    rows = rows[np.argsort(flows.start_ns[rows], kind="stable")]
    line = np.searchsorted(chosen, connections.of_row[rows])
    begin_ns = np.where(first == LATEST, MISSING, first)[:, 1:]
    return Closings(
        line, place[flows.src[rows]], place[flows.dst[rows]],
        flows.start_ns[rows], flows.end_ns[rows], connections.size[rows],
        np.column_stack((begin_ns, np.full(phases.endpoints.size, MISSING))), lasts,
    )  # fmt: skip


def _first_ns(phases: Phases) -> Ints:
    """First traffic of each endpoint in each step [ns], or LATEST, shape (endpoints, steps).

    Stages that gather parameters begin before others have ended.
    """
    starts = [one.start_ns for one in phases.moments.values()]
    first = np.full((phases.endpoints.size, phases.count), LATEST)
    for start in starts:
        first = np.minimum(first, np.where(start == MISSING, LATEST, start))
    return first


def _lasts(
    flows: FlowTable, connections: Connections, phases: Phases, chosen: Ints, first: Ints
) -> Ints:
    """Steps of the attempts from the first to the last record of each connection of ``chosen``.

    ``first`` is the first traffic of each endpoint and step [ns].
    """
    firsts = phases.first_of_epoch
    begins = first[:, firsts[1:]].min(axis=0)
    rows = [connections.by.rows(line) for line in chosen.tolist()]
    times = np.array([[flows.start_ns[own].min(), flows.start_ns[own].max()] for own in rows])
    oldest, newest = np.searchsorted(begins, times.reshape(-1, 2), side="right").T
    after = np.append(firsts[1:], phases.count)
    lasts: Ints = after[newest] - firsts[oldest]
    return lasts


def with_closings(closings: Closings, end: Floats, origin_ns: int, unseen: Bools) -> Floats:
    """The ``end`` of the steps of all ranks [ns since ``origin_ns``], or later ones where shown.

    ``end`` has the shape (endpoints, steps); it is the end of the passes of endpoints whose
    gradients are ``unseen``.
    """
    if not closings.line.size or not np.isfinite(end).any():
        return end
    step = _steps_of(closings, end, origin_ns)
    kept = _are_regular(closings, step, end.shape[1])
    wait = np.where(unseen, REDUCED, SMALL)
    later, taken = _followed(closings, step, end, origin_ns, kept, wait)
    again = _are_regular(closings, np.where(taken, step, -1), end.shape[1])
    if not np.array_equal(again, kept):
        later, _ = _followed(closings, step, end, origin_ns, again, wait)
    return later


def _steps_of(closings: Closings, end: Floats, origin_ns: int) -> Ints:
    """The last step that a rank of each record has ended when it starts; -1 if there is none."""
    start = (closings.start_ns - origin_ns).astype(np.float64)
    step = np.full(start.size, -1)
    for who in (closings.src, closings.dst):
        for rank in np.unique(who).tolist():
            mine = np.flatnonzero(who == rank)
            ended = np.searchsorted(end[rank], start[mine], side="right") - 1
            step[mine] = np.maximum(step[mine], ended)
    return step


def _are_regular(closings: Closings, step: Ints, count: int) -> Bools:
    """Which connections have the same bytes in nearly all steps, shape (connections,)."""
    lines = int(closings.line.max()) + 1
    known = step >= 0
    cell = closings.line[known] * count + step[known]
    volume = np.bincount(cell, closings.size[known], lines * count).reshape(lines, count)
    usual = nanmedian(np.where(volume > 0, volume, np.nan), axis=1)[:, None]
    alike = (volume > 0) & (np.abs(volume - usual) <= EQUAL * usual)
    regular: Bools = alike.sum(axis=1) >= NEARLY * closings.lasts
    return regular


def _followed(
    closings: Closings, step: Ints, end: Floats, origin_ns: int, kept: Bools, wait: Floats
) -> tuple[Floats, Bools]:
    """Ends with the records of the ``kept`` connections that follow at once; which ones do.

    At once is less than ``wait`` of the time until the next step begins, for each endpoint.
    """
    later, taken = end.copy(), np.zeros(step.size, np.bool_)
    begin = np.where(
        closings.begin_ns == MISSING, np.nan, (closings.begin_ns - origin_ns).astype(np.float64)
    )
    usual = nanmedian(begin - end, axis=1)[:, None]
    begin = np.where(np.isnan(begin), end + usual, begin)
    for i in np.flatnonzero((step >= 0) & kept[closings.line]).tolist():
        ranks, at = [closings.src[i], closings.dst[i]], step[i]
        start, stop = (float(t[i] - origin_ns) for t in (closings.start_ns, closings.end_ns))
        ready, until = later[ranks, at].max(), begin[ranks, at].min()
        if start - ready <= wait[ranks].max() * (until - ready) and stop <= until:
            later[ranks, at] = np.maximum(later[ranks, at], stop)
            taken[i] = True
    return later, taken
