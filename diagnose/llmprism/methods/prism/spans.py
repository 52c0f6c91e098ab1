"""What a rank did in each step: its traffic by kind, and what lies between as computation.

Records of one kind that touch or overlap are one span. Time of a step without data-parallel
or pipeline traffic of the rank counts as computation; waiting looks the same from outside.

Records are in order of their start, so one pass over them finds all spans: a record either
touches the last span of its kind, rank and step, or begins a new one. The first pass counts the
spans, and the second one writes them where they belong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.phases import Phases
from llmprism.methods.prism.timeline import Ranks
from llmprism.numerics.arrays import Codes, Ints
from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import CODES, INTS, compile_early

Marks = NDArray[np.int8]
KINDS = ("dp", "pp", "compute")
_TRAFFIC = 2  # kinds that records have
_NEVER = -(2**63)


@dataclass(frozen=True)
class Marked:
    """All that the spans of one job are made of; small beside what the job was found with.

    Attributes
    ----------
    name : of the job.
    endpoints : their codes.
    first_ns, last_ns : start and end of each step [ns], shape (endpoints, steps).
    row, kind, step : records that belong to a step, in order, with kind (into KINDS) and step.
    """

    name: str
    endpoints: Codes
    first_ns: Ints
    last_ns: Ints
    row: Codes
    kind: Marks
    step: Codes


def marked(name: str, phases: Phases, ranks: Ranks, rows: int) -> Marked:
    """Mark the records of a job in a flow table of so many ``rows``."""
    kind, step = np.full(rows, -1, np.int8), np.zeros(rows, np.int32)
    for part in phases.classes:
        if part.kind in KINDS[:_TRAFFIC]:
            known = part.step >= 0
            own = part.one.traffic.row[known]
            kind[own], step[own] = KINDS.index(part.kind), part.step[known]
    row = np.flatnonzero(kind >= 0).astype(np.int32)
    first, last = (
        np.rint(np.nan_to_num(times)).astype(np.int64) + ranks.origin_ns
        for times in (ranks.start, ranks.end)
    )
    return Marked(name, phases.endpoints, first, last, row, kind[row], step[row])


def find_spans(flows: FlowTable, job: Marked) -> dict[str, NDArray[Any]]:
    """Columns ``endpoint`` (its code), ``step``, ``kind`` (index into KINDS), start and end."""
    place = np.zeros(len(flows.addresses), np.int32)
    place[job.endpoints] = np.arange(job.endpoints.size)
    table = (place, flows.src, flows.dst, flows.start_ns, flows.end_ns)
    records = (job.row, job.kind, job.step)
    count, start, end = laid_out(table, records, job.first_ns, job.last_ns)
    shape = (len(KINDS), *job.first_ns.shape)
    _, endpoint, number = np.unravel_index(np.arange(count.size), shape)
    kind = np.arange(len(KINDS), dtype=np.int8)
    return {
        "endpoint": np.repeat(job.endpoints[endpoint], count),
        "step": np.repeat(number.astype(np.int32), count),
        "kind": np.repeat(kind, count.reshape(len(KINDS), -1).sum(axis=1)),
        "start_ns": start,
        "end_ns": end,
    }


def laid_out(
    table: tuple[Codes, Codes, Codes, Ints, Ints], records: tuple[Codes, Marks, Codes],
    first: Ints, last: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """Number of spans of each kind, endpoint and step; start and end of all spans in that order.

    Parameters
    ----------
    table : index of each endpoint by its code; sender, receiver, start and end [ns] of all records.
    records : rows of those that count, in order of their start, with kind and step.
    first, last : start and end of each step [ns], shape (endpoints, steps).
    """
    cells = len(KINDS) * first.size
    count = np.zeros(cells, np.int64)
    _walk(*table, *records, first, last, count, INTS, INTS)
    start, end = np.empty(count.sum(), np.int64), np.empty(count.sum(), np.int64)
    _walk(*table, *records, first, last, np.cumsum(count) - count, start, end)
    return count, start, end


@compiled
def _walk(
    place: Codes, src: Codes, dst: Codes, start: Ints, end: Ints,
    row: Codes, kind: Marks, step: Codes,
    first: Ints, last: Ints, at: Ints, begins: Ints, ends: Ints,
) -> None:  # fmt: skip
    """Lay out all spans; ``at`` is the place of the next span of each cell.

    Without room in ``begins`` and ``ends`` the spans are only counted.
    """
    endpoints, steps = first.shape
    cells = endpoints * steps
    write = begins.size > 0
    reach = np.full(_TRAFFIC * cells, _NEVER)
    free = first.copy().reshape(cells)
    until = last.copy().reshape(cells)
    for i in range(row.size):
        begin, finish = start[row[i]], end[row[i]]
        for side in (place[src[row[i]]], place[dst[row[i]]]):
            cell = side * steps + step[i]
            own, idle = kind[i] * cells + cell, _TRAFFIC * cells + cell
            if begin > reach[own]:
                if write:
                    begins[at[own]] = begin
                at[own] += 1
            reach[own] = max(reach[own], finish)
            if write:
                ends[at[own] - 1] = reach[own]
            stop = min(begin, until[cell])
            if stop > free[cell]:
                if write:
                    begins[at[idle]], ends[at[idle]] = free[cell], stop
                at[idle] += 1
            free[cell] = max(free[cell], finish)
    for cell in range(cells):
        if until[cell] > free[cell]:
            idle = _TRAFFIC * cells + cell
            if write:
                begins[at[idle]], ends[at[idle]] = free[cell], until[cell]
            at[idle] += 1


_MARKS = np.zeros(0, np.int8)
_CELLS = np.zeros((0, 0), np.int64)
compile_early(
    _walk,
    lambda: (
        CODES, CODES, CODES, INTS, INTS, CODES, _MARKS, CODES, _CELLS, _CELLS, INTS, INTS, INTS,
    ),
)  # fmt: skip
