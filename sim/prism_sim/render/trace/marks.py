"""The windows of faults and findings, as asynchronous slices; findings have an instant too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from prism_common.quantities import clock_time
from prism_sim.render import look
from prism_sim.render.trace.lines import Event, describe, thread
from prism_sim.run_folder import Run
from prism_sim.score.culprits import culprit_of


@dataclass(frozen=True)
class Mark:
    """A window with a name: of a fault or of a finding."""

    kind: str
    id: str
    name: str
    args: dict[str, str]
    start_ns: int
    end_ns: int


def marks_of(run: Run) -> list[Mark]:
    """Faults and findings whose times are known."""
    ranks = look.truth(run, "ranks")
    marks = []
    for number, fault in look.truth(run, "faults").dropna(subset=["start_ns"]).iterrows():
        culprit = culprit_of(fault, ranks)
        name = f"fault: {fault['kind']} {culprit[1] if culprit else ''}".rstrip()
        marks.append(_mark("fault", number, name, fault, ["job", "factor"]))
    for _, finding in look.diagnosis(run, "findings").dropna(subset=["start_ns"]).iterrows():
        name = f"finding: {finding['symptom'] or finding['cause']} {finding['culprit']}"
        keys = ["job", "level", "confidence"]
        marks.append(_mark("finding", finding["finding"], name, finding, keys))
    return marks


def _mark(kind: str, number: Any, name: str, row: pd.Series, keys: list[str]) -> Mark:
    start = int(row["start_ns"])
    end = start if pd.isna(row["end_ns"]) else int(row["end_ns"])
    args = {key: row[key] if isinstance(row[key], str) else str(row[key]) for key in keys}
    args["utc"] = clock_time(start, dated=True)
    return Mark(kind, f"{kind}-{number}", name, args, start, end)


def mark_events(pid: int, marks: list[Mark], origin: int) -> Iterator[Event]:
    """One process with all windows."""
    yield from describe(pid, "faults and findings")
    yield thread(pid, 1, "findings begin")
    for mark in marks:
        start, end = ((time - origin) / 1000 for time in (mark.start_ns, mark.end_ns))
        place = {"pid": pid, "tid": 1}
        both = {"name": mark.name, "cat": mark.kind, "id": mark.id, **place}
        yield {"ph": "b", "ts": start, **both, "args": mark.args}
        yield {"ph": "e", "ts": end, **both}
        if mark.kind == "finding":
            yield {"ph": "i", "s": "t", "ts": start, "name": mark.name, **place}
