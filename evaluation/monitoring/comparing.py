"""Watches one world, and compares what the monitor found with one diagnosis of all records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from evaluation.monitoring.lockstep import Pieces, watch
from evaluation.monitoring.process import used_s
from llmprism.diagnosis import Diagnosis
from llmprism.pipeline import diagnose
from llmprism.watch.matching import alert_name, place_of
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings
from llmprism.watch.sources import Taken

_FILES = 12
_CENTURY_NS = 2**61

Found = set[tuple[str, str]]
"""Cause and place of each finding."""


@dataclass(frozen=True)
class Comparison:
    """What a monitor and one diagnosis found in a world.

    Attributes
    ----------
    both, only_batch, only_monitor : findings by cause and place.
    steps : share of the steps of the diagnosis that the monitor has, with the same number.
    records_per_s : records in a second of CPU time, all windows together.
    """

    records: int
    both: Found
    only_batch: Found
    only_monitor: Found
    steps: float
    records_per_s: float


class Files(Pieces):
    """Pieces of which the last one is known to be the last."""

    def take(self, position: Any, wait_s: float) -> Taken:
        """The next piece."""
        taken = super().take(position, wait_s)
        return replace(taken, is_end=taken.position >= len(self))


def compare(flows: Path, topology: Path, folder: Path) -> Comparison:
    """Watch a recording in ``folder``, and diagnose it as a whole."""
    files = Files(flows, folder)
    records = files.table.num_rows
    files.borders = np.linspace(0, records, _FILES + 1).astype(int)
    ends = files.table["end_ns"].to_numpy()
    window_ns = int(ends[-1] - files.table["start_ns"].to_numpy().min()) // 2
    settings = Settings(
        window_ns=window_ns, stride_ns=window_ns // 4, quiet_ns=window_ns // 8, lag_ns=_CENTURY_NS
    )
    began_s = used_s()
    state = watch(files, topology, folder, settings)
    took_s = used_s() - began_s
    whole = diagnose(flows, topology)
    parts = Network(topology).parts
    batch = {
        (alert_name(row), place_of(row, parts))
        for row in rows_of(whole)
        if not whole.verdict.doubted(str(row["job"]))
    }
    watched = {
        (one.labels["alertname"], one.place) for one in state.state.incidents if one.stage != "new"
    }
    watched |= _events(state.path)
    return Comparison(
        records=records,
        both=batch & watched,
        only_batch=batch - watched,
        only_monitor=watched - batch,
        steps=_same_steps(whole.steps, state.path / "history" / "steps"),
        records_per_s=records / max(took_s, 1e-9),
    )


def rows_of(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """The findings of a diagnosis."""
    rows = diagnosis.findings.to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _events(state: Path) -> Found:
    table = state / "history" / "findings"
    if not table.exists():
        return set()
    rows = pq.read_table(table).to_pandas()
    return set(zip(rows["alertname"], rows["place"], strict=True))


def _same_steps(whole: pd.DataFrame, history: Path) -> float:
    """Share of the (job, step) of a diagnosis that end when the monitor's step of that number does.

    Jobs are matched by their times alone, since both number them on their own.
    """
    if not len(whole):
        return 1.0
    ends = whole.groupby(["job", "step"])["end_ns"].median()
    if not history.exists():
        return 0.0
    steps = pq.read_table(history).to_pandas()
    found = steps.groupby(["job", "step"])["end_ns"].median()
    same = 0
    for _, own in ends.groupby(level=0):
        period = float(own.diff().median()) if len(own) > 1 else float("inf")
        counts = [
            int((abs(own.droplevel(0) - other.droplevel(0)) < period / 4).sum())
            for _, other in found.groupby(level=0)
        ]
        same += max(counts, default=0)
    return same / len(ends)
