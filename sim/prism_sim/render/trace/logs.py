"""A process for each job with logs: a track for each role, with an instant for each report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from prism_sim.render.logged import ROLES
from prism_sim.render.trace.lines import Event, describe, thread


def log_events(pid: int, found: pd.DataFrame, origin_ns: int) -> Iterator[Event]:
    """The reports of :func:`prism_sim.render.logged.reports`; process numbers begin at ``pid``."""
    for number, (job, own) in enumerate(found.groupby("job", observed=True)):
        yield from describe(pid + number, f"logs of {job}")
        for tid, role in enumerate(ROLES, 1):
            mine = own[own["role"] == role]
            if len(mine):
                yield thread(pid + number, tid, role)
            for row in mine.to_dict("records"):
                yield {
                    "ph": "i", "s": "t", "ts": (int(row["time_ns"]) - origin_ns) / 1000,
                    "name": _name(row), "pid": pid + number, "tid": tid,
                    "args": {"lines": int(row["lines"])},
                }  # fmt: skip


def _name(row: dict[Any, Any]) -> str:
    """The kind of line, and who printed it."""
    rank, node = row["rank"], row["node"]
    place = f"rank {int(rank)}" if pd.notna(rank) else node
    return f"{row['event']} {place if pd.notna(place) else 'scheduler'}"
