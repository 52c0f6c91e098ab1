"""A process for each job with logs: the failure, llmlog's answer, and reports by their role."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from prism_sim.render.logged import ROLES
from prism_sim.render.trace.lines import Event, describe, thread


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
