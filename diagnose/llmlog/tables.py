"""Results as tables: ``failures``, ``events`` and ``jobs``, as Parquet and as JSON.

``failures`` has a row for each failed job, ``events`` one for each event with a role other than
``benign``, ``jobs`` one for each job that was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llmlog.diagnosis import Failure
from llmlog.errors import LogError
from llmlog.events import Event
from llmlog.progress import Progress
from llmlog.reading import Job
from llmlog.records import masked
from prism_common.files import replacing

_SCHEMAS = {
    "jobs": pa.schema(
        [
            ("job", pa.string()),
            ("state", pa.string()),
            ("user", pa.string()),
            ("nodes", pa.int64()),
            ("iterations", pa.int64()),
            ("failed", pa.bool_()),
        ]
    ),
    "failures": pa.schema(
        [
            ("job", pa.string()),
            ("stage", pa.string()),
            ("node", pa.string()),
            ("nodes", pa.string()),
            ("rank", pa.int64()),
            ("ranks", pa.string()),
            ("iteration", pa.int64()),
            ("cause", pa.string()),
            ("or_causes", pa.string()),
            ("confidence", pa.float64()),
            ("because", pa.string()),
        ]
    ),
    "events": pa.schema(
        [
            ("job", pa.string()),
            ("file", pa.string()),
            ("line", pa.int64()),
            ("lines", pa.int64()),
            ("node", pa.string()),
            ("rank", pa.int64()),
            ("time", pa.string()),
            ("kind", pa.string()),
            ("role", pa.string()),
            ("template", pa.string()),
        ]
    ),
}
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

    def add(self, job: Job, progress: Progress, failure: Failure | None) -> None:
        """Add the rows of a job."""
        done = progress.iterations
        row = {
            "job": job.name,
            "state": job.state,
            "user": job.user,
            "nodes": len(job.nodes) or None,
            "iterations": len({one.number for one in done}),
            "failed": failure is not None,
        }
        self.rows["jobs"].append(row)
        if failure is not None:
            self.rows["failures"].append(failure_row(failure))
            shown = (event for event in failure.events if event.role != "benign")
            self.rows["events"] += [event_row(job.name, event) for event in shown]

    def write(self, folder: Path) -> None:
        """Write each table as ``NAME.parquet``.

        Raises
        ------
        LogError : the folder cannot be written.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, schema in _SCHEMAS.items():
                table = pa.Table.from_pylist(self.rows[name], schema)
                with replacing(folder / f"{name}.parquet") as partial:
                    pq.write_table(table, partial)
        except OSError as error:
            what = f"cannot be written ({error.strerror or error})"
            raise LogError(str(folder), what, "give another folder with --out") from None

    def summary(self) -> str:
        """All failures and jobs as JSON; events are in the tables."""
        content = {name: self.rows[name] for name in ("failures", "jobs")}
        return json.dumps(content, indent=1, allow_nan=False)


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
