"""Marks: windows of faults and findings, and what logs show.

Logs have a process for each job: the failure, llmlog's answer, and reports by their role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from prism_common.quantities import clock_time
from prism_sim.render import look
from prism_sim.render.logged import ROLES
from prism_sim.render.trace.lines import Event, describe, thread
from prism_sim.run_folder import Run
from prism_sim.score.culprits import culprit_of


def log_events(
    pid: int, found: pd.DataFrame, failures: Iterable[Mapping[str, Any]], origin_ns: int
) -> Iterator[Event]:
    """The reports and the failures of :mod:`prism_sim.render.logged`; processes from ``pid`` on."""
    by_job = {row["job"]: row for row in failures}
    for number, job in enumerate(sorted({*by_job, *found["job"]}), pid):
        yield from describe(number, f"logs of {job}")
        if job in by_job:
            yield from _answer(number, by_job[job], origin_ns)
        own = found[found["job"] == job]
        for tid, role in enumerate(ROLES, 3):
            mine = own[own["role"] == role]
            if len(mine):
                yield thread(number, tid, role)
            for row in mine.to_dict("records"):
                yield {
                    "ph": "i", "s": "t", "ts": (int(row["time_ns"]) - origin_ns) / 1000,
                    "name": _name(row), "pid": number, "tid": tid,
                    "args": {"lines": int(row["lines"])},
                }  # fmt: skip


def _answer(pid: int, row: Mapping[str, Any], origin_ns: int) -> Iterator[Event]:
    """The failure as the truth has it, and llmlog's answer until others report it."""
    lasts_us = (row["end_ns"] - row["begin_ns"]) / 1000
    noticed_s = row["others_after_s"]
    slices: tuple[tuple[str, str, float, dict[str, Any]], ...] = (
        (f"{row['kind']} {row['place'] or 'all ranks'}", "truth", lasts_us, {}),
        (
            row["answer"],
            "llmlog",
            lasts_us if noticed_s is None else noticed_s * 1e6,
            {
                "own line after [s]": row["shown_after_s"],
                "others report after [s]": noticed_s,
                "ranks that only report": row["others"],
                "what to do": row["remedy"],
            },
        ),
    )
    for tid, (name, track, length_us, args) in enumerate(slices, 1):
        yield thread(pid, tid, track)
        yield {
            "ph": "X", "ts": (row["begin_ns"] - origin_ns) / 1000, "dur": length_us,
            "name": name, "pid": pid, "tid": tid, "args": args,
        }  # fmt: skip


def _name(row: dict[Any, Any]) -> str:
    """The kind of line, and who printed it."""
    rank, node = row["rank"], row["node"]
    place = f"rank {int(rank)}" if pd.notna(rank) else node
    return f"{row['event']} {place if pd.notna(place) else 'scheduler'}"


# The windows of faults and findings, as asynchronous slices; findings have an instant too.


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
