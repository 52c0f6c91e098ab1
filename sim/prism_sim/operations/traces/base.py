"""The contract of a trace: outages of the servers of a cluster, from which a job is drawn.

A job has some of the cluster's servers, drawn by the seed, and begins at a drawn time, so that
replications differ. A server that is replaced is replaced by one with the same future.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Literal

from pydantic import Field

from prism_common.errors import Problem, UserError
from prism_sim.operations.causes import Symptom
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
    overlaps: Literal["refuse", "merge"] = Field(
        default="refuse", description="what to do with outages of one server that overlap"
    )

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
