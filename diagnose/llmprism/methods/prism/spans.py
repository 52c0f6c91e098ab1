"""What a rank did in each step: its traffic by kind, and what lies between as computation.

Records of one kind that touch or overlap are one span. Time of a step without data-parallel
or pipeline traffic of the rank counts as computation; waiting looks the same from outside.

Records are in order of their start, so one pass over them finds all spans: a record either
touches the last span of its kind, rank and step, or begins a new one. The first pass counts the
spans, and the second one writes them where they belong.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.phases import Phases
from llmprism.methods.prism.timeline import Ranks
from llmprism.numerics.arrays import Codes, Ints
from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import INTS, compile_early

KINDS = ("dp", "pp", "compute")
_TRAFFIC = 2  # kinds that records have
_NEVER = -(2**63)


def find_spans(flows: FlowTable, phases: Phases, ranks: Ranks) -> dict[str, Ints]:
    """Columns ``endpoint`` (index into the job's), ``step``, ``kind`` (into KINDS), start, end."""
    row, kind, step = _records(phases)
    place = np.zeros(len(flows.addresses), np.int32)
    place[phases.endpoints] = np.arange(phases.endpoints.size)
    first, last = (
        np.rint(np.nan_to_num(times)).astype(np.int64) + ranks.origin_ns
        for times in (ranks.start, ranks.end)
    )
    records = (place[flows.src[row]], place[flows.dst[row]], kind, step)
    times = (flows.start_ns[row], flows.end_ns[row])
    count, start, end = laid_out(records, times, first, last)
    _, endpoint, number = np.unravel_index(np.arange(count.size), (len(KINDS), *first.shape))
    kind = np.arange(len(KINDS), dtype=np.int8)
    return {
        "endpoint": np.repeat(endpoint.astype(np.int32), count),
        "step": np.repeat(number, count),
        "kind": np.repeat(kind, count.reshape(len(KINDS), -1).sum(axis=1)),
        "start_ns": start,
        "end_ns": end,
    }


def _records(phases: Phases) -> tuple[Ints, Codes, Codes]:
    """Row of every record of a known step, in order, with its kind and step."""
    parts = [part for part in phases.classes if part.kind in KINDS[:_TRAFFIC]]
    rows, kinds, steps = [INTS], [INTS.astype(np.int32)], [INTS.astype(np.int32)]
    for part in parts:
        known = part.step >= 0
        rows.append(part.one.traffic.row[known])
        kinds.append(np.full(rows[-1].size, KINDS.index(part.kind), np.int32))
        steps.append(part.step[known].astype(np.int32))
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    return row[order], np.concatenate(kinds)[order], np.concatenate(steps)[order]


def laid_out(
    records: tuple[Codes, Codes, Codes, Codes], times: tuple[Ints, Ints], first: Ints, last: Ints
) -> tuple[Ints, Ints, Ints]:
    """Number of spans of each kind, endpoint and step; start and end of all spans in that order.

    Parameters
    ----------
    records : sender, receiver, kind and step of each record.
    times : start and end of each record [ns], in order of the start.
    first, last : start and end of each step [ns], shape (endpoints, steps).
    """
    cells = len(KINDS) * first.size
    count = np.zeros(cells, np.int64)
    _walk(*records, *times, first, last, count, INTS, INTS)
    start, end = np.empty(count.sum(), np.int64), np.empty(count.sum(), np.int64)
    _walk(*records, *times, first, last, np.cumsum(count) - count, start, end)
    return count, start, end


@compiled
def _walk(
    home: Codes, goal: Codes, kind: Codes, step: Codes, start: Ints, end: Ints,
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
    for i in range(start.size):
        for side in (home[i], goal[i]):
            cell = side * steps + step[i]
            own, idle = kind[i] * cells + cell, _TRAFFIC * cells + cell
            if start[i] > reach[own]:
                if write:
                    begins[at[own]] = start[i]
                at[own] += 1
            reach[own] = max(reach[own], end[i])
            if write:
                ends[at[own] - 1] = reach[own]
            stop = min(start[i], until[cell])
            if stop > free[cell]:
                if write:
                    begins[at[idle]], ends[at[idle]] = free[cell], stop
                at[idle] += 1
            free[cell] = max(free[cell], end[i])
    for cell in range(cells):
        if until[cell] > free[cell]:
            idle = _TRAFFIC * cells + cell
            if write:
                begins[at[idle]], ends[at[idle]] = free[cell], until[cell]
            at[idle] += 1


_CODES = np.zeros(0, np.int32)
_CELLS = np.zeros((0, 0), np.int64)
compile_early(
    _walk,
    lambda: (_CODES, _CODES, _CODES, _CODES, INTS, INTS, _CELLS, _CELLS, INTS, INTS, INTS),
)
