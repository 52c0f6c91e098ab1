"""Results as tables: ``failures``, ``events`` and ``jobs``, as Parquet and as JSON.

``failures`` has a row for each failed job, ``events`` one for each event with a role other than
``benign``, ``jobs`` one for each job that was read, ``course`` one for each iteration and pause.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llmlog.clocks import since_1970_ns
from llmlog.course import course_of, layout_of
from llmlog.diagnosis import Failure
from llmlog.evidence import Event, Evidence
from llmlog.progress import usual_s
from llmlog.records import masked
from llmlog.understanding import known as known_of
from prism_common.errors import Problem, UserError
from prism_common.files import replacing
from prism_common.folders import Names, OwnFolder

_TYPES = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
_COLUMNS = {
    "jobs": "job:text state:text user:text nodes:int iterations:int iteration_s:float failed:bool "
    "lines:int understood:float unread:text samples:text servers:text layout:text",
    "failures": "job:text stage:text node:text nodes:text rank:int ranks:text iteration:int "
    "cause:text or_causes:text confidence:float because:text at_ns:int",
    "course": "job:text what:text number:int start_ns:int end_ns:int",
    "events": "job:text file:text line:int lines:int node:text rank:int time:text kind:text "
    "role:text template:text",
}
_SCHEMAS = {
    table: pa.schema([(name, _TYPES[kind]) for name, _, kind in pairs])
    for table, text in _COLUMNS.items()
    if (pairs := [pair.partition(":") for pair in text.split()])
}
MARK = "llmlog.json"
"""Shows that the tables of a folder are ours."""
_MARK_TEXT = '{"tables_of": "llmlog"}\n'
_NAMES = Names(r"llmlog\.json", *(rf"{name}\.parquet" for name in _SCHEMAS))
_OTHER = "give another folder with --out"
Row = dict[str, Any]
_BECAUSE = 300
"""Characters of a line that is given as a reason."""
_REASONS = 4
_TELLING = {"cause", "flows"}
"""Roles of events that are given as reasons."""


class Results:
    """Rows of all tables, in order of jobs."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in _SCHEMAS}

    def add(self, evidence: Evidence, failure: Failure | None) -> None:
        """Add the rows of a job."""
        job, done, known = evidence.job, evidence.progress.iterations, known_of(evidence)
        row = {
            "job": job.name,
            "state": job.state,
            "user": job.user,
            "nodes": len(job.nodes) or None,
            "iterations": len({one.number for one in done}),
            "iteration_s": usual_s(done),
            "failed": True if failure is not None else False if known.sound else None,
            "lines": known.lines,
            "understood": round(known.share, 4),
            "unread": json.dumps(known.unread),
            "samples": json.dumps(known.samples),
            "servers": json.dumps(evidence.nodes),
            "layout": json.dumps(layout_of(evidence.sizes)),
        }
        self.rows["jobs"].append(row)
        self.rows["course"] += [{"job": job.name, **one} for one in course_of(evidence.progress)]
        if failure is not None:
            self.rows["failures"].append(failure_row(failure))
            shown = (event for event in failure.events if event.role != "benign")
            self.rows["events"] += [event_row(job.name, event) for event in shown]

    def write(self, folder: Path) -> None:
        """Write each table as ``NAME.parquet``, and the mark that shows whose they are.

        Raises
        ------
        UserError : it has files of these names that llmlog did not write.
        OSError : it cannot be written.
        """
        own = check_target(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(own.path_of(MARK)) as partial:
            partial.write_text(_MARK_TEXT, encoding="utf-8")
        for name in {*own.files()} - {MARK}:  # tables of two runs are never beside each other
            own.remove(name)
        for name, schema in _SCHEMAS.items():
            with replacing(own.path_of(f"{name}.parquet")) as partial:
                pq.write_table(pa.Table.from_pylist(self.rows[name], schema), partial)

    def summary(self) -> str:
        """All failures and jobs as JSON; events are in the tables."""
        content = {name: self.rows[name] for name in ("failures", "jobs")}
        return json.dumps(content, indent=1, allow_nan=False)


def check_target(folder: Path) -> OwnFolder:
    """Return the files of llmlog in a folder.

    Raises
    ------
    UserError : the folder has files under our names that llmlog did not write, or is none.
    """
    own = OwnFolder(folder, _NAMES, _OTHER)
    own.refuse_in_the_way()
    there = [*own.files()]
    if there and not (own.holds(MARK) and (folder / MARK).read_bytes() == _MARK_TEXT.encode()):
        what = f"holds {there[0]!r}, which llmlog did not write"
        raise UserError(Problem(what, str(folder), _OTHER))
    return own


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in order, runs of them as first-last.

    >>> ranges([0, 1, 2, 5])
    '0-2,5'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def failure_row(failure: Failure) -> Row:
    """The row of a failure; lists and shares are JSON."""
    times = [event.time for event in failure.events if event.role in _TELLING]
    return {
        "job": failure.job,
        "stage": failure.stage,
        "node": failure.nodes[0] if failure.nodes else None,
        "nodes": json.dumps(failure.nodes),
        "rank": failure.ranks[0] if failure.ranks else None,
        "ranks": json.dumps(failure.ranks),
        "iteration": failure.iteration,
        "cause": next(iter(failure.causes), None),
        "or_causes": json.dumps({name: round(share, 4) for name, share in failure.causes.items()}),
        "confidence": failure.confidence,
        "because": _because(failure),
        "at_ns": min(filter(None, map(since_1970_ns, times)), default=None),
    }


def _because(failure: Failure) -> str | None:
    """The most telling line of each kind of event that is a cause, with the rank of the first."""
    first: dict[tuple[str, int | None], Event] = {}
    for event in failure.events:
        if event.role in _TELLING:
            first.setdefault((event.kind, event.rank), event)
    texts = [
        f"{'' if event.rank is None else f'rank {event.rank} '}{_telling(event)}"[:_BECAUSE]
        for event in list(first.values())[:_REASONS]
    ]
    return "; ".join(texts) or None


def _telling(event: Event) -> str:
    lines = event.text.split("\n")
    stating = (line for line in lines if event.error and f"{event.error}:" in line)
    naming = (line for line in lines if event.error and event.error in line)
    return next(stating, next(naming, lines[0]))


def event_row(job: str, event: Event) -> Row:
    """The row of an event; its template is that of its most telling line."""
    return {
        "job": job,
        "file": event.file,
        "line": event.line,
        "lines": event.count,
        "node": event.node,
        "rank": event.rank,
        "time": event.time or None,
        "kind": event.kind,
        "role": event.role,
        "template": (event.text if event.role == "flows" else masked(_telling(event)))[:400],
    }
