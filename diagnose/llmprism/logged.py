"""What the tables of ``llmlog LOGS --out FOLDER`` know of jobs: layouts, failures, their course.

A layout is a fact in place of what records show, as that of a scheduler is. Iterations check the
steps that records show. Ranks that wait while one saves or evaluates are not slow, so a finding
whose time is such a pause is explained by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.finding_fields import names_in
from llmprism.io.topology import ScheduledJob, Topology
from llmprism.job_names import servers_of
from prism_common.errors import Problem, UserError
from prism_common.quantities import duration

EXPLAINS = 0.5
"""Of the time that a finding costs: a pause that explains it lasts so long at least."""
ALIKE = 0.1
"""By which share iterations of logs and steps of records may differ."""
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("job", "servers", "layout"),
    "failures": ("job", "stage", "nodes", "cause", "confidence"),
    "course": ("job", "what", "number", "start_ns", "end_ns"),
}


class Pause(NamedTuple):
    """An iteration (its ``what``), or a save or evaluation after it [ns]."""

    what: str
    number: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Course:
    """What a job did on its servers, as its logs say: in order, its iterations and pauses."""

    servers: frozenset[str]
    rows: tuple[Pause, ...]

    def pause_in(self, row: Mapping[str, Any], steps: pd.DataFrame) -> Pause | None:
        """The pause that explains a finding, which begins and ends within a step of the pause."""
        start_ns, end_ns = row["start_ns"], row["end_ns"]
        cost_ns = end_ns - start_ns if pd.isna(row["cost"]) else row["cost"]
        step_ns = (steps["end_ns"] - steps["start_ns"]).median()
        return next((
            one for one in self.rows
            if one.what != "iteration" and one.end_ns - one.start_ns >= EXPLAINS * cost_ns
            and start_ns >= one.start_ns - step_ns and end_ns <= one.end_ns + step_ns
        ), None)  # fmt: skip

    def paused(self, steps: pd.DataFrame) -> dict[str, str]:
        """The save or evaluation that explains what a step is longer by, by its number."""
        spans = steps.groupby("step")[["start_ns", "end_ns"]].median()
        length_ns = spans["end_ns"] - spans["start_ns"]
        explains_ns = (EXPLAINS * (length_ns - length_ns.median())).clip(lower=0)
        found: dict[str, str] = {}
        for one in (one for one in self.rows if one.what != "iteration"):
            begin_ns, end_ns = spans["start_ns"].clip(one.start_ns), spans["end_ns"]
            inside = spans.index[end_ns.clip(upper=one.end_ns) - begin_ns > explains_ns]
            found |= dict.fromkeys(map(str, inside), f"{one.what} after iteration {one.number}")
        return found

    def differs(self, job: str, steps: pd.DataFrame) -> Iterator[str]:
        """Where its iterations and the ``steps`` of a job differ, in words."""
        ends_ns = sorted({one.number: one.end_ns for one in self.rows if one.what == "iteration"}
                         .items())  # fmt: skip
        number, end_ns = np.array(ends_ns, np.int64).reshape(-1, 2).T
        if end_ns.size < 2 or steps.empty:
            return
        if end_ns.max() < steps["start_ns"].min() or end_ns.min() > steps["end_ns"].max():
            yield f"{job}: no iteration in its logs is in the time of the records (is it UTC?)"
            return
        logged = float(np.median(np.diff(end_ns) / np.diff(number)))
        shown = float((steps["end_ns"] - steps["start_ns"]).median())
        if abs(shown - logged) > ALIKE * logged:
            words = f"{duration(logged)}, and records show steps of {duration(shown)}"
            yield f"{job}: an iteration in its logs takes {words}"


def read(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of llmlog; a UserError if it is none. Older ones lack ``at_ns``."""
    path = folder / f"{table}.parquet"
    try:
        found = pq.read_table(path)
        found.select(_COLUMNS[table])
    except (OSError, KeyError, pa.ArrowException) as error:
        how = "llmlog LOGS --out FOLDER writes it"
        raise UserError(Problem("this is no table of llmlog", str(path), how)) from error
    return list(found.to_pylist())


def jobs_of(folders: Iterable[Path]) -> list[ScheduledJob]:
    """The jobs whose logs name servers and sizes of a layout."""
    made = [
        ScheduledJob(row["job"], _servers(row), layout=json.loads(row["layout"] or "{}"))
        for folder in folders
        for row in read(folder, "jobs")
    ]
    return [one for one in made if one.servers and one.layout]


def courses_of(folders: Iterable[Path], topology: Topology) -> Iterator[Course]:
    """What each job did."""
    for folder in folders:
        rows = read(folder, "course")
        for job in read(folder, "jobs"):
            own = [one for one in rows if one["job"] == job["job"]]
            pauses = tuple(Pause(*(one[name] for name in Pause._fields)) for one in own)
            named = _servers(job)
            servers = servers_of(topology, named)
            yield Course(frozenset(servers.get(name, name) for name in named), pauses)


def _servers(row: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(names_in(json.loads(row["servers"] or "[]")))
