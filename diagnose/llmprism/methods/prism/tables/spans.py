"""What a rank did in each step: its traffic by kind, and what lies between as computation.

Records of one kind that touch or overlap are one span. Time of a step without data-parallel
or pipeline traffic of the rank counts as computation; waiting looks the same from outside.

Records are in order of their start, so one pass over them finds all spans: a record either
touches the last span of its kind, rank and step, or begins a new one. The first pass counts the
spans, and another one for each part of the table writes them where they belong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from llmprism.io.frames import as_categories
from llmprism.io.parts import PART_ROWS
from llmprism.methods.prism.phases.phases import Phases
from llmprism.methods.prism.timeline.timeline import Ranks
from llmprism.numerics.arrays import INTS, Codes, Ints
from prism_common.compiled import compiled

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
            own = part.traffic.row[known]
            kind[own], step[own] = KINDS.index(part.kind), part.step[known]
    row = np.flatnonzero(kind >= 0).astype(np.int32)
    first, last = (
        np.rint(np.nan_to_num(times)).astype(np.int64) + ranks.origin_ns
        for times in (ranks.start, ranks.end)
    )
    return Marked(name, phases.endpoints, first, last, row, kind[row], step[row])


@dataclass(frozen=True)
class SpanTable:
    """Makes the table of the spans of all jobs; there are more of them than records.

    Attributes
    ----------
    addresses : of the endpoints.
    records : sender and receiver (endpoint codes), start and end [ns] of all records.
    jobs : at least one.
    """

    addresses: list[str]
    records: tuple[Codes, Codes, Ints, Ints]
    jobs: Sequence[Marked]

    def __call__(self) -> Iterator[pd.DataFrame]:
        """The table in parts, names as categories."""
        names = [job.name for job in self.jobs]
        for number, job in enumerate(self.jobs):
            for columns in find_spans(len(self.addresses), self.records, job):
                own = np.full(columns["step"].size, number, np.int16)
                yield pd.DataFrame(
                    {
                        "job": as_categories(names, own),
                        "address": as_categories(self.addresses, columns["endpoint"]),
                        "step": columns["step"],
                        "kind": as_categories(KINDS, columns["kind"]),
                        "start_ns": columns["start_ns"],
                        "end_ns": columns["end_ns"],
                    },
                    copy=False,
                )


def find_spans(
    nodes: int, records: tuple[Codes, Codes, Ints, Ints], job: Marked
) -> Iterator[dict[str, NDArray[Any]]]:
    """Columns ``endpoint`` (its code), ``step``, ``kind`` (index into KINDS), start and end.

    In parts; ``nodes`` is the number of endpoint codes.
    """
    place = np.zeros(nodes, np.int32)
    place[job.endpoints] = np.arange(job.endpoints.size)
    own = (job.row, job.kind, job.step)
    shape = (len(KINDS), *job.first_ns.shape)
    kind, endpoint, step = np.unravel_index(np.arange(np.prod(shape)), shape)
    cells: dict[str, NDArray[Any]] = {
        "endpoint": job.endpoints[endpoint],
        "step": step.astype(np.int32),
        "kind": kind.astype(np.int8),
    }
    for count, start, end in laid_out((place, *records), own, job.first_ns, job.last_ns):
        columns = {name: np.repeat(of_cell, count) for name, of_cell in cells.items()}
        yield {**columns, "start_ns": start, "end_ns": end}


def laid_out(
    table: tuple[Codes, Codes, Codes, Ints, Ints], records: tuple[Codes, Marks, Codes],
    first: Ints, last: Ints,
) -> Iterator[tuple[Ints, Ints, Ints]]:  # fmt: skip
    """Spans in order of kind, endpoint and step, in parts.

    Parameters
    ----------
    table : index of each endpoint by its code; sender, receiver, start and end [ns] of all records.
    records : rows of those that count, in order of their start, with kind and step.
    first, last : start and end of each step [ns], shape (endpoints, steps).

    Yields
    ------
    The number of spans in this part of each kind, endpoint and step; their starts; their ends.
    """
    count = np.zeros(len(KINDS) * first.size, np.int64)
    _walk(*table, *records, first, last, count, INTS, INTS)
    edges = np.append(0, np.cumsum(count))
    for begin in range(0, max(int(edges[-1]), 1), PART_ROWS):
        inside = np.diff(np.clip(edges, begin, begin + PART_ROWS))
        start, end = np.empty((2, inside.sum()), np.int64)
        _walk(*table, *records, first, last, edges[:-1] - begin, start, end)
        yield inside, start, end


@compiled
def _walk(
    place: Codes, src: Codes, dst: Codes, start: Ints, end: Ints,
    row: Codes, kind: Marks, step: Codes,
    first: Ints, last: Ints, at: Ints, begins: Ints, ends: Ints,
) -> None:  # fmt: skip
    """Lay out all spans; ``at`` is the place of the next span of each cell.

    Those for which ``begins`` and ``ends`` have no place are only counted.
    """
    endpoints, steps = first.shape
    cells = endpoints * steps
    room = begins.size
    reach = np.full(_TRAFFIC * cells, _NEVER)
    free = first.copy().reshape(cells)
    until = last.copy().reshape(cells)
    for i in range(row.size):
        begin, finish = start[row[i]], end[row[i]]
        for side in (place[src[row[i]]], place[dst[row[i]]]):
            cell = side * steps + step[i]
            own, idle = int(kind[i]) * cells + cell, _TRAFFIC * cells + cell
            if begin > reach[own]:
                if 0 <= at[own] < room:
                    begins[at[own]] = begin
                at[own] += 1
            reach[own] = max(reach[own], finish)
            if 0 < at[own] <= room:
                ends[at[own] - 1] = reach[own]
            stop = min(begin, until[cell])
            if stop > free[cell]:
                if 0 <= at[idle] < room:
                    begins[at[idle]], ends[at[idle]] = free[cell], stop
                at[idle] += 1
            free[cell] = max(free[cell], finish)
    for cell in range(cells):
        if until[cell] > free[cell]:
            idle = _TRAFFIC * cells + cell
            if 0 <= at[idle] < room:
                begins[at[idle]], ends[at[idle]] = free[cell], until[cell]
            at[idle] += 1


_CELLS = np.zeros((0, 0), np.int64)
