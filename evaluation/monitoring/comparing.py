"""Watches one world, and compares what the monitor found with one diagnosis of all records."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from evaluation.monitoring.lockstep import watch
from llmprism.diagnosis import Diagnosis
from llmprism.pipeline import diagnose
from llmprism.watch.matching import alert_name, place_of
from llmprism.watch.network import Network
from llmprism.watch.settings import Settings

_STRIDES = 6  # of a window

Found = set[tuple[str, str]]
"""Cause and place of each finding."""


@dataclass(frozen=True)
class Comparison:
    """What a monitor and one diagnosis found in a world.

    Attributes
    ----------
    both, only_batch, only_monitor : findings by cause and place.
    records_per_s : records in a second of CPU time, all windows together.
    """

    records: int
    both: Found
    only_batch: Found
    only_monitor: Found
    records_per_s: float


def compare(flows: Path, topology: Path, folder: Path) -> Comparison:
    """Watch a recording in ``folder``, and diagnose it as a whole."""
    records = pq.read_table(flows, columns=["start_ns", "end_ns"])
    starts, ends = (records[name].to_numpy() for name in ("start_ns", "end_ns"))
    window_ns = int(ends.max() - starts.min()) // 2
    settings = Settings(
        window_ns=window_ns, stride_ns=window_ns // _STRIDES, quiet_ns=window_ns // 8, lag_ns=2**61
    )
    began_s = time.process_time()
    state = watch(flows, topology, folder, settings)
    took_s = time.process_time() - began_s
    network = Network(topology)
    whole = diagnose(flows, topology)
    parts = network.parts
    batch = {
        (alert_name(row), place_of(row, parts))
        for row in ({str(k): v for k, v in one.items()} for one in _rows(whole))
        if not whole.verdict.doubted(str(row["job"]))
    }
    watched = _events(state)
    return Comparison(
        records=records.num_rows,
        both=batch & watched,
        only_batch=batch - watched,
        only_monitor=watched - batch,
        records_per_s=records.num_rows / max(took_s, 1e-9),
    )


def _rows(diagnosis: Diagnosis) -> list[dict[Any, Any]]:
    rows: list[dict[Any, Any]] = diagnosis.findings.to_dict("records")
    return rows


def _events(state: Path) -> Found:
    table = state / "history" / "findings"
    if not table.exists():
        return set()
    rows = pq.read_table(table).to_pandas()
    return set(zip(rows["alertname"], rows["place"], strict=True))
