"""The truth tables of a run: from what its ranks recorded, and from the layout of its jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lab.faults import FaultWindows, row
from lab.plan import JobPlan
from lab.records import write_packed
from llmprism.io.writing import write_table
from prism_sim.run_folder import TRUTH

SPANS = pa.schema([
    ("rank", pa.int64()), ("step", pa.int64()), ("kind", pa.string()), ("start_ns", pa.int64()),
    ("end_ns", pa.int64()), ("micro_batch", pa.int64()), ("bucket", pa.int64()),
    ("bytes", pa.int64()), ("job", pa.string()),
])  # fmt: skip
LEAST_PAYLOAD_BYTES = 64 * 1024
"""A pair that carried less in the whole run was only set up: it is in no row of ``pairs``."""


def write_truth(plans: list[JobPlan], windows: FaultWindows, room: Path, folder: Path) -> None:
    """Write ranks, steps, spans, pairs and faults below ``folder``."""
    truth = folder / "truth"
    truth.mkdir(parents=True, exist_ok=True)
    _write(truth, "ranks", [one for plan in plans for one in _ranks(plan)])
    recorded = {plan.job: _recorded(plan, room) for plan in plans}
    for name, schema in (("steps", TRUTH["steps"]), ("spans", SPANS)):
        rows = [own for job in recorded.values() for own in job[name]]
        write_packed(pa.Table.from_pylist(rows, schema), truth / f"{name}.parquet")
    flows = pq.read_table(folder / "flows.parquet", columns=["src", "dst", "payload"]).to_pandas()
    sent = flows.astype({"src": str, "dst": str}).groupby(["src", "dst"])["payload"].sum()
    _write(truth, "pairs", [one for plan in plans for one in _pairs(plan, sent)])
    begun = [number for number in range(len(windows.all)) if number in windows.begun]
    _write(truth, "faults", [row(windows, number, windows.all[number]) for number in begun])


def _write(truth: Path, name: str, rows: list[dict[str, Any]]) -> None:
    write_table(pa.Table.from_pylist(rows, TRUTH[name]), truth / f"{name}.parquet", TRUTH[name])


def _ranks(plan: JobPlan) -> list[dict[str, Any]]:
    rows = []
    for rank in range(plan.ranks):
        stage, member, tensor = plan.place(rank)
        rows.append({
            "job": plan.job, "rank": rank, "address": plan.addresses[rank],
            "server": plan.servers[rank], "gpu": 0, "dp": member, "pp": stage, "tp": tensor,
            "ep": 0, "cp": 0,
        })  # fmt: skip
    return rows


def _recorded(plan: JobPlan, room: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"steps": [], "spans": []}
    for rank in range(plan.ranks):
        own = json.loads((room / f"truth-{plan.job}-{rank}.json").read_text(encoding="utf-8"))
        for name, rows in found.items():
            rows += [{"job": plan.job, "rank": rank, **one} for one in own[name]]
    return found


def _pairs(plan: JobPlan, sent: pd.Series) -> list[dict[str, Any]]:
    rows = []
    for a in range(plan.ranks):
        for b in range(plan.ranks):
            src, dst = plan.addresses[a], plan.addresses[b]
            size = int(sent.get((src, dst), 0))
            if size >= LEAST_PAYLOAD_BYTES:
                kind = kind_of(plan, a, b)
                rows.append({"job": plan.job, "src": src, "dst": dst, "kind": kind, "bytes": size})
    return rows


def kind_of(plan: JobPlan, a: int, b: int) -> str:
    """Return what two ranks are to each other: they differ in one place, or in several."""
    places = zip(("pp", "dp", "tp"), plan.place(a), plan.place(b), strict=True)
    differing = [kind for kind, one, other in places if one != other]
    return differing[0] if len(differing) == 1 else "other"
