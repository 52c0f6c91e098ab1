"""Writes what each commit adds to the history.

A day has few files in the end, instead of one a commit, and days that are too old have none. A
merged file is called by the first and last of those in it, and replaces them after it is on the
disk. If a crash comes between, both are there for a while: rows are then found twice, and a reader
takes distinct ones, until the next merge removes them.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.writing import write_table
from llmprism.part_names import condensed
from llmprism.watch.listening import Listener
from llmprism.watch.settings import SECOND_NS
from llmprism.watch.state import State
from llmprism.watch.view import View
from prism_common.folders import Names, OwnFolder

_LABELS = ("alertname", "severity", "job", "culprit_kind", "culprit", "place")
_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()
_FIGURES = {"first_step": _WHOLE, "last_step": _WHOLE, "gpu_hours": _REAL}
_FIGURES |= {"magnitude": _REAL, "confidence": _REAL}


def _schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


TABLES: dict[str, pa.Schema] = {
    "steps": _schema(job=_TEXT, step=_WHOLE, start_ns=_WHOLE, end_ns=_WHOLE, ranks=_WHOLE),
    "layouts": _schema(
        job=_TEXT, time_ns=_WHOLE, servers=_TEXT, gpus=_WHOLE, layout=_TEXT, confidence=_REAL
    ),
    "findings": _schema(
        number=_WHOLE,
        event=_TEXT,
        incident=_TEXT,
        time_ns=_WHOLE,
        **dict.fromkeys((*_LABELS, "startsAt", "endsAt", "summary"), _TEXT),
        **_FIGURES,
    ),
}
"""The tables of the history. Times in [ns], ``gpu_hours`` as in the event."""


class History(Listener):
    """Listens to a monitor; each commit writes files of its own."""

    def __init__(self, folder: Path, retention_days: int) -> None:
        self._own, self._retention_days = own_history(folder), retention_days
        self._layouts: dict[str, tuple[str, str]] = {}

    def diagnosed(self, state: State, view: View) -> None:
        """Write the steps that are new, the layouts that changed, and the events."""
        every = (view.followed.settled, view.steps)
        steps = pd.concat([one[TABLES["steps"].names] for one in every if len(one)] or [every[0]])
        self._write("steps", steps, steps["end_ns"], state.commit)
        layouts = pd.DataFrame(self._changed(view), columns=TABLES["layouts"].names)
        self._write("layouts", layouts, layouts["time_ns"], state.commit)
        self._write_events(state, view.span.end_ns)

    def followed(self, state: State, steps: pd.DataFrame) -> None:
        """Write the steps that are new, and the events."""
        self._write("steps", steps[TABLES["steps"].names], steps["end_ns"], state.commit)
        self._write_events(state, state.cursor_ns or 0)

    def _write_events(self, state: State, time_ns: int) -> None:
        events = [_row(event, time_ns) for event in state.outbox]
        findings = pd.DataFrame(events, columns=TABLES["findings"].names)
        self._write("findings", findings, findings["time_ns"], state.commit)
        forget_days(self._own, self._retention_days, day_of(time_ns))

    def _changed(self, view: View) -> list[tuple[Any, ...]]:
        """The jobs whose servers or layouts have changed."""
        rows = []
        for job in view.layouts:
            servers = condensed(job.servers)
            if self._layouts.get(job.name) != (servers, job.layout):
                self._layouts[job.name] = (servers, job.layout)
                end_ns = view.span.end_ns
                rows.append((job.name, end_ns, servers, job.gpus, job.layout, job.confidence))
        return rows

    def _write(self, name: str, rows: pd.DataFrame, times_ns: pd.Series, commit: int) -> None:
        """Write rows into the folders of their days."""
        for day, own in rows.groupby(times_ns.map(day_of)):
            folder = f"{name}/day={day}"
            path = self._own.path_of(f"{folder}/{commit:010}.parquet")
            write_table(own, path, TABLES[name])
            compact_day(self._own, folder, TABLES[name])


def day_of(time_ns: int) -> str:
    """The day of a time, in UTC.

    >>> day_of(86_400_000_000_000)
    '1970-01-02'
    """
    return f"{datetime.fromtimestamp(time_ns // SECOND_NS, UTC):%Y-%m-%d}"


def _row(event: dict[str, Any], time_ns: int) -> dict[str, Any]:
    labels = {name: event["labels"].get(name, "") for name in _LABELS}
    figures = {name: event.get(name) for name in (*_FIGURES, "incident")}
    own = {name: event[name] for name in ("number", "event", "startsAt", "endsAt")}
    summary = event["annotations"]["summary"]
    return {**own, **labels, **figures, "summary": summary, "time_ns": time_ns}


MOST_FILES = 64
"""Of a day and a table, before they are merged."""
_DAY = r"day=\d{4}-\d\d-\d\d"
_NAMES = Names(rf"(?:steps|layouts|findings)/{_DAY}/\d+(?:-\d+)?\.parquet")
_OTHER = "name another folder with --state"


def own_history(folder: Path) -> OwnFolder:
    """The files of a history in its folder."""
    return OwnFolder(folder, _NAMES, _OTHER)


def compact_day(history: OwnFolder, folder: str, schema: pa.Schema) -> None:
    """Merge the files of a day, if there are many; one that is damaged stays as it is."""
    names = [*history.files(folder)]
    if len(names) <= MOST_FILES:
        return
    tables = {name: table for name in names if (table := _table(history.path / name, schema))}
    if len(tables) < 2:
        return
    ends = [Path(name).stem.split("-") for name in tables]
    target = f"{folder}/{ends[0][0]}-{ends[-1][-1]}.parquet"
    rows = pa.concat_tables(tables.values()).group_by(schema.names).aggregate([])
    write_table(rows.select(schema.names), history.path_of(target), schema)
    for name in tables:
        if name != target:
            history.remove(name)


def _table(path: Path, schema: pa.Schema) -> pa.Table | None:
    try:
        return pq.read_table(path, partitioning=None).cast(schema)
    except (OSError, ValueError, pa.ArrowException):
        return None


def forget_days(history: OwnFolder, retention_days: int, today: str) -> None:
    """Remove the files of days before the retention time."""
    oldest = date.fromordinal(max(1, date.fromisoformat(today).toordinal() - retention_days))
    for path in history.path.glob("*/day=*"):
        if path.name.removeprefix("day=") < oldest.isoformat():
            history.remove_folder(f"{path.parent.name}/{path.name}")
