"""What a rank did in each step: its traffic by kind, and what lies between as computation.

Records of one kind that touch or overlap are one span. Time of a step without data-parallel
or pipeline traffic of the rank counts as computation; waiting looks the same from outside.
"""

from __future__ import annotations

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.phases import Phases
from llmprism.methods.prism.timeline import Ranks
from llmprism.numerics.arrays import Ints, order_in_groups
from llmprism.numerics.compiled import compiled
from llmprism.numerics.early import INTS, compile_early

KINDS = ("dp", "pp", "compute")


def find_spans(flows: FlowTable, phases: Phases, ranks: Ranks) -> dict[str, Ints]:
    """Columns ``endpoint`` (index into the job's), ``step``, ``kind`` (into KINDS), start, end."""
    cells, start, end = {}, {}, {}
    for number, kind in enumerate(KINDS[:2]):
        cells[number], start[number], end[number] = _merged(*_touches(flows, phases, kind))
    both = _merged(*(np.concatenate([part[0], part[1]]) for part in (cells, start, end)))
    first, last = (
        np.rint(np.nan_to_num(times)).astype(np.int64).ravel() + ranks.origin_ns
        for times in (ranks.start, ranks.end)
    )
    cells[2], start[2], end[2] = _between(*both, first, last)
    cell = np.concatenate([cells[number] for number in range(len(KINDS))])
    return {
        "endpoint": cell // phases.count,
        "step": cell % phases.count,
        "kind": np.repeat(np.arange(len(KINDS)), [cells[n].size for n in range(len(KINDS))]),
        "start_ns": np.concatenate([start[number] for number in range(len(KINDS))]),
        "end_ns": np.concatenate([end[number] for number in range(len(KINDS))]),
    }


def _touches(flows: FlowTable, phases: Phases, kind: str) -> tuple[Ints, Ints, Ints]:
    """Every record of a kind at its sender and at its receiver: cell (endpoint, step) and times."""
    cells, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for one in phases.classes:
        if one.kind == kind:
            known = one.step >= 0
            own, step = one.one.traffic.row[known], one.step[known]
            for side in (flows.src, flows.dst):
                place = np.searchsorted(phases.endpoints, side[own])
                cells.append(place * phases.count + step)
                rows.append(own)
    cell, row = np.concatenate(cells), np.concatenate(rows)
    return cell, flows.start_ns[row], flows.end_ns[row]


def _merged(cell: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Join what touches or overlaps within a cell."""
    order = order_in_groups(cell, start)
    cell, start, end = cell[order], start[order], end[order]
    opens = _opens(cell, start, end)
    first = np.flatnonzero(opens)
    if first.size == 0:
        return cell, start, end
    return cell[first], start[first], np.maximum.reduceat(end, first)


@compiled
def _opens(cell: Ints, start: Ints, end: Ints) -> Ints:
    """1 where a span begins that no earlier one of its cell reaches."""
    opens = np.zeros(cell.size, np.int64)
    reach, last = 0, -1
    for i in range(cell.size):
        if cell[i] != last or start[i] > reach:
            opens[i] = 1
            reach, last = end[i], cell[i]
        reach = max(reach, end[i])
    return opens


compile_early(_opens, lambda: (INTS, INTS, INTS))


@compiled
def _between(
    cell: Ints, start: Ints, end: Ints, first: Ints, last: Ints
) -> tuple[Ints, Ints, Ints]:
    """What the spans of each cell leave free between ``first`` and ``last`` of the cell."""
    room = cell.size + first.size
    cells = np.empty(room, np.int64)
    begins = np.empty(room, np.int64)
    ends = np.empty(room, np.int64)
    count, at = 0, 0
    for c in range(first.size):
        free = first[c]
        while at < cell.size and cell[at] == c:
            stop = min(start[at], last[c])
            if stop > free:
                cells[count], begins[count], ends[count] = c, free, stop
                count += 1
            free = max(free, end[at])
            at += 1
        if last[c] > free:
            cells[count], begins[count], ends[count] = c, free, last[c]
            count += 1
    return cells[:count], begins[:count], ends[:count]


compile_early(_between, lambda: (INTS, INTS, INTS, INTS, INTS))
