"""Traces of ``torch.profiler``: kept with the run, and compared with what the trainers recorded.

Both clocks are those of the machine, so a step must begin and end at the same time in both. The
profiler learns of a step from a mark that the trainer sets just after it has read the clock.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from lab.trainers.recording import STEP

FOLDER = "profiles"


def keep(room: Path, folder: Path) -> dict[str, float]:
    """Move the traces in ``room`` to ``folder``; return how far steps differ, by rank [ms].

    The largest difference of a start or an end between the trace and the trainer's record.
    """
    apart: dict[str, float] = {}
    for path in sorted(room.glob("profile-*.json.gz")):
        rank = path.name.removeprefix("profile-").removesuffix(".json.gz")
        recorded = json.loads((room / f"truth-{rank}.json").read_text(encoding="utf-8"))
        apart[rank] = difference_ms(steps_of(path), pd.DataFrame(recorded["steps"]))
        (folder / FOLDER).mkdir(exist_ok=True)
        shutil.move(path, folder / FOLDER / f"{rank}.json.gz")
    return apart


def steps_of(path: Path) -> pd.DataFrame:
    """Columns ``step``, ``start_ns``, ``end_ns`` of the marked steps of a trace."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trace: dict[str, Any] = json.load(file)
    origin_ns = int(trace.get("baseTimeNanoseconds", 0))
    rows = [
        {
            "step": int(event["name"].removeprefix(STEP)),
            "start_ns": origin_ns + round(event["ts"] * 1000),
            "end_ns": origin_ns + round((event["ts"] + event["dur"]) * 1000),
        }
        for event in trace["traceEvents"]
        if event.get("cat") == "user_annotation" and event["name"].startswith(STEP)
    ]
    return pd.DataFrame(rows, columns=["step", "start_ns", "end_ns"])


def difference_ms(traced: pd.DataFrame, recorded: pd.DataFrame) -> float:
    """Largest difference of a start or an end of a step [ms]; infinite if steps are missing."""
    both = recorded.merge(traced, on="step", how="outer", suffixes=("", "_traced"))
    if both.isna().to_numpy().any():
        return float("inf")
    apart = [(both[name] - both[f"{name}_traced"]).abs().max() for name in ("start_ns", "end_ns")]
    return float(max(apart)) / 1e6
