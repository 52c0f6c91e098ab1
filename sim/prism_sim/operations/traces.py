"""Failures that were recorded; a new format is a class and one entry below."""

from __future__ import annotations

import csv
import json
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from prism_common.errors import Problem, UserError
from prism_sim.operations.failures import Symptom
from prism_sim.registry import Registry, by_literal
from prism_sim.scenario.base import Closed


@dataclass(frozen=True)
class Outage:
    """A server is faulty between two times [days since the begin of the trace].

    ``where`` is its place in the file, for messages.
    """

    server: str
    from_days: float
    until_days: float
    cause: str
    symptom: Symptom = "error"
    where: str = ""


class TraceBase(Closed):
    """A file of outages."""

    file: str = Field(min_length=1, description="the trace, beside the study")
    servers: int = Field(ge=1, description="servers of the recorded cluster, healthy ones too")
    overlaps: Literal["refuse", "merge"] = "refuse"
    """what to do with outages of one server that overlap"""

    @abstractmethod
    def rows(self, path: Path) -> list[Outage]:
        """The outages in the file at ``path``, as they are written."""

    def read(self, path: Path) -> tuple[Outage, ...]:
        """The outages by time.

        Raises
        ------
        UserError : outages end before they begin, overlap, or are of too many servers.
        """
        rows = sorted(self.rows(path), key=lambda row: (row.from_days, row.until_days))
        if not rows:
            raise UserError(Problem("the trace has no outages", str(path)))
        servers = len({row.server for row in rows})
        if servers > self.servers:
            what = f"the trace has {servers} servers, and the study says {self.servers}"
            raise UserError(Problem(what, str(path), "correct servers of the trace"))
        bad = [_backwards(row) for row in rows if not 0 <= row.from_days <= row.until_days < inf]
        if bad:
            raise UserError(bad)
        return tuple(self._apart(rows))

    def _apart(self, rows: Iterable[Outage]) -> list[Outage]:
        """The outages without overlaps."""
        last: dict[str, Outage] = {}
        apart: defaultdict[str, list[Outage]] = defaultdict(list)
        overlaps = []
        for row in rows:
            before = last.get(row.server)
            if before is not None and row.from_days < before.until_days:
                overlaps.append(_overlap(before, row))
                ends = max(before.until_days, row.until_days)
                row = apart[row.server].pop() if apart[row.server] else before
                row = replace(row, until_days=ends)
            apart[row.server].append(row)
            last[row.server] = row
        if overlaps and self.overlaps == "refuse":
            raise UserError(overlaps)
        merged = [row for rows in apart.values() for row in rows]
        return sorted(merged, key=lambda row: (row.from_days, row.server))


def _backwards(row: Outage) -> Problem:
    if row.from_days < 0:
        return Problem(f"an outage of {row.server} begins before the trace", row.where)
    if row.until_days == inf:
        return Problem(f"an outage of {row.server} has no end", row.where)
    what = f"an outage of {row.server} ends at {row.until_days:g}, before {row.from_days:g} days"
    return Problem(what, row.where)


def _overlap(before: Outage, row: Outage) -> Problem:
    what = f"outages of {row.server} overlap: until {before.until_days:g}, from {row.from_days:g}"
    return Problem(what, row.where, "correct the trace, or set overlaps: merge")


class InfiniteHbd(TraceBase):
    """The trace of InfiniteHBD: 584 faults of 400 servers in 348 days.

    Its source is https://github.com/stepfun-ai/InfiniteHBD-Trace (Apache-2.0). The file is a list
    of events, each of which begins or ends a fault of a node; times are in days. Two faults of the
    published file overlap with another one of the same node.

    Events ``fault_start`` and ``fault_end`` of nodes, in JSON.
    """

    kind: Literal["infinitehbd"] = "infinitehbd"

    def rows(self, path: Path) -> list[Outage]:
        try:
            events = json.loads(path.read_text(encoding="utf-8"))
            return _outages(events, path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"this is no trace of InfiniteHBD: {type(error).__name__} {error}"
            raise UserError(Problem(what, str(path))) from error


def _outages(events: list[dict[str, Any]], path: Path) -> list[Outage]:
    """Pairs of a begin and the next end of the same fault on the same node.

    A fault without an end lasts until the last event.
    """
    begun: defaultdict[tuple[str, str], list[Outage]] = defaultdict(list)
    found, problems, last_days = [], [], 0.0
    for number, event in enumerate(events):
        where = f"{path}, event {number}"
        node, fault = event["node_id"], event["fault_type"]
        key = (node, json.dumps(fault, sort_keys=True))
        at_days = float(event["event_time"])
        last_days = max(last_days, at_days)
        if event["event_type"] == "fault_start":
            begun[key].append(Outage(node, at_days, at_days, fault["Class"], where=where))
        elif begun[key]:
            found.append(replace(begun[key].pop(0), until_days=at_days, where=where))
        else:
            problems.append(Problem(f"a fault of {node} ends without a begin", where))
    if problems:
        raise UserError(problems)
    open_ones = (outage for outages in begun.values() for outage in outages)
    return found + [replace(outage, until_days=last_days) for outage in open_ones]


_COLUMNS = ("server", "from_days", "until_days", "cause")


class Table(TraceBase):
    """A table in CSV: a row for each outage.

    A table in CSV with the columns ``server``, ``from_days``, ``until_days`` and ``cause``.
    """

    kind: Literal["table"] = "table"

    def rows(self, path: Path) -> list[Outage]:
        with path.open(encoding="utf-8", errors="replace", newline="") as text:
            reader = csv.DictReader(text)
            if missing := [name for name in _COLUMNS if name not in (reader.fieldnames or ())]:
                what = f"the trace has no column {', '.join(missing)}"
                raise UserError(Problem(what, f"{path}:1", f"columns: {', '.join(_COLUMNS)}"))
            return [_outage(row, f"{path}:{reader.line_num}") for row in reader]


def _outage(row: dict[str, str], where: str) -> Outage:
    try:
        begins, ends = float(row["from_days"]), float(row["until_days"])
    except (TypeError, ValueError):
        what = f"{row['from_days']!r} and {row['until_days']!r} are not both numbers"
        raise UserError(Problem(what, where)) from None
    if not row["server"] or not row["cause"]:
        raise UserError(Problem("an outage needs a server and a cause", where))
    return Outage(row["server"], begins, ends, row["cause"], where=where)


TRACES: Registry[type[TraceBase]] = Registry(
    "prism_sim.operations.traces", InfiniteHbd, Table, name_of=by_literal
)
"""Each format by its name in a study."""
