"""What flows tell about a job beside its logs: the node that went silent first, or that is slow.

Flows are read as the tables that their own diagnosis writes: ``jobs`` (which address belongs to
which server) and ``findings``. A server has the name that the scheduler gives the node. The logs
list nodes, and so does each finding, the most probable first. A node gets from each list the
confidence of the list divided by its place in it, and the sums order the nodes (reciprocal rank
fusion, Cormack et al., SIGIR 2009).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from llmlog.evidence import Event, Writer
from llmlog.failing import Culprit
from llmlog.reading import Job
from llmlog.roles import SURE
from prism_common.errors import Problem, UserError

FINDINGS, JOBS = "findings.parquet", "jobs.parquet"
ROLE = "flows"
_COLUMNS = {
    JOBS: ("address", "server"),
    FINDINGS: ("symptom", "culprit", "start_ns", "cost", "confidence", "evidence"),
}
_STOPPED = "stopped"
_TOLERANCE_NS = 5_000_000_000
"""By which the clocks of the scheduler and of the collector may differ."""


@dataclass(frozen=True)
class Sighting:
    """A finding of flows that names nodes.

    Attributes
    ----------
    row : of the table, from 1.
    stopped : whether the job stopped; else it became slow.
    nodes : most probable first.
    start_ns : when the nodes went silent, or became slow, on the collector's clock.
    cost_ns : how much time the job lost.
    confidence : from 0 to 1.
    """

    row: int
    stopped: bool
    nodes: tuple[str, ...]
    start_ns: int
    cost_ns: float
    confidence: float

    def event(self) -> Event:
        """The finding beside the events of logs."""
        at = datetime.fromtimestamp(self.start_ns / 1e9, UTC)
        time = at.isoformat(" ", "milliseconds").removesuffix("+00:00")
        does = "sent nothing" if self.stopped else "was slow"
        others = f"; it may also be {', '.join(self.nodes[1:])}" if self.nodes[1:] else ""
        text = f"flows: {self.nodes[0]} {does} from {time} on{others}"
        kind, writer = "silent" if self.stopped else "slow", Writer(self.nodes[0], None)
        return Event(kind, ROLE, writer, None, FINDINGS, self.row, time, text, role=ROLE)


class Flows:
    """The findings of flows, by node and time."""

    def __init__(self, sightings: Iterable[Sighting] = ()) -> None:
        self.sightings = list(sightings)

    @classmethod
    def read(cls, folder: Path) -> Flows:
        """Read the tables in ``folder``.

        Raises
        ------
        UserError : a table is missing, or is none.
        """
        servers = {row["address"]: row["server"] for row in _rows(folder, JOBS)}
        servers |= {name: name for name in servers.values()}
        rows = enumerate(_rows(folder, FINDINGS), 1)
        found = (_sighting(number, row, servers) for number, row in rows)
        return cls(one for one in found if one is not None)

    def of(self, job: Job) -> list[Sighting]:
        """Those about nodes of ``job`` that began while it ran; the costliest first."""
        begin_ns = -math.inf if job.begin_ns is None else job.begin_ns - _TOLERANCE_NS
        end_ns = math.inf if job.end_ns is None else job.end_ns + _TOLERANCE_NS
        found = [
            one
            for one in self.sightings
            if one.nodes[0] in job.nodes and begin_ns <= one.start_ns <= end_ns
        ]
        return sorted(found, key=lambda one: -one.cost_ns)


def joined(culprit: Culprit, sightings: Iterable[Sighting]) -> tuple[Culprit, list[Event]]:
    """The culprit with nodes in the order that logs and flows give together, and what flows say.

    A fault that all nodes state belongs to none of them, whatever flows say.
    """
    slow = culprit.slow is not None
    seen = [one for one in sightings if one.stopped is not slow]
    if not seen or culprit.everywhere:
        return culprit, []
    sums: dict[str, float] = defaultdict(float)
    lists = [(SURE[culprit.how], culprit.nodes), *((one.confidence, one.nodes) for one in seen)]
    for confidence, names in lists:
        for place, node in enumerate(names, 1):
            sums[node] += confidence / place
    nodes = sorted(sums, key=lambda node: -sums[node])
    ranks = culprit.ranks if nodes[:1] == culprit.nodes[:1] else []
    return Culprit(culprit.how, culprit.events, nodes, ranks, culprit.slow), [
        one.event() for one in seen
    ]


def _rows(folder: Path, name: str) -> list[dict[str, Any]]:
    path, how = folder / name, "give the folder that llmprism --out wrote"
    try:
        table = pq.read_table(path)
        if not table.num_rows:
            return []
        rows: list[dict[str, Any]] = table.select([*_COLUMNS[name]]).to_pylist()
    except FileNotFoundError:
        raise UserError(Problem("does not exist", str(path), how)) from None
    except (OSError, KeyError, pa.ArrowException) as error:
        what = f"is no table of findings of flows ({str(error).splitlines()[0]})"
        raise UserError(Problem(what, str(path), how)) from None
    return rows


def _sighting(number: int, row: dict[str, Any], servers: dict[str, str]) -> Sighting | None:
    """A finding that names servers, or parts of them; None for all others."""
    evidence = _object(row["evidence"])
    names = [row["culprit"], *(evidence.get("one_of") or ())]
    parts = (part for name in names for part in str(name).replace(">", "|").split("|"))
    nodes = tuple(dict.fromkeys(servers[part] for part in parts if part in servers))
    figures = [row[name] for name in ("start_ns", "cost", "confidence")]
    if not nodes or any(figure is None or not math.isfinite(figure) for figure in figures):
        return None
    start_ns, cost_ns, confidence = figures
    return Sighting(
        number, row["symptom"] == _STOPPED, nodes, int(start_ns), cost_ns, min(1.0, confidence)
    )


def _object(text: object) -> dict[str, Any]:
    """JSON text of an object; empty if it is none."""
    try:
        content = json.loads(str(text))
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
