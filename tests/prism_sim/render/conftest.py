"""Small runs to draw: a complete one, and runs without some parts.

Job A is DP 2 x PP 2 over servers h0..h3, job B is DP 2 over h4 and h5; six steps of 1 s and 0.8 s.
Rank 2 of A (10.0.0.2 on h2) is slow in steps 3 and 4. The diagnosis is nearly right.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from llmprism.io.tables import DIAGNOSIS
from prism_sim.render.figures import FIGURES
from prism_sim.run_folder import TRUTH
from prism_sim.toolkit import Run, score_run

T0 = 1_795_225_000_000_000_000
MS = 1_000_000
STEPS = 6
LENGTH_MS = {"A": 1000, "B": 800}
RANKS = [
    ("A", 0, "10.0.0.0", "h0", 0, 0),
    ("A", 1, "10.0.0.1", "h1", 1, 0),
    ("A", 2, "10.0.0.2", "h2", 0, 1),
    ("A", 3, "10.0.0.3", "h3", 1, 1),
    ("B", 0, "10.0.0.4", "h4", 0, 0),
    ("B", 1, "10.0.0.5", "h5", 1, 0),
]
PAIRS = [
    *(("A", a, b, "dp") for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))),
    *(("A", a, b, "pp") for a, b in ((0, 2), (2, 0), (1, 3), (3, 1))),
    *(("B", a, b, "dp") for a, b in ((4, 5), (5, 4))),
]
SPANS_MS = {
    ("A", 0): [("fwd", 0, 200), ("send_act", 200, 240), ("recv_grad", 560, 600), ("bwd", 600, 750)],
    ("A", 1): [
        ("recv_act", 200, 240),
        ("fwd", 240, 400),
        ("bwd", 400, 560),
        ("send_grad", 560, 600),
    ],
    ("B", 0): [("fwd", 0, 200), ("bwd", 200, 500)],
}
END_MS = {
    "A": [("all_reduce", 750, 850), ("all_reduce", 800, 950), ("opt", 950, 1000)],
    "B": [("all_reduce", 450, 700), ("opt", 700, 800)],
}
SAID = {"fwd": "compute", "bwd": "compute", "opt": "compute", "all_reduce": "dp"}
SAID |= dict.fromkeys(["send_act", "recv_act", "send_grad", "recv_grad"], "pp")


def address(number: int) -> str:
    return f"10.0.0.{number}"


def write_flows(run: Run, *, paths: bool = True) -> None:
    rows = []
    for job, a, b, kind in PAIRS:
        begin, end = {"dp": (750, 950), "pp": (200, 240)}[kind]
        for step in range(STEPS):
            start = T0 + (step * LENGTH_MS[job] + begin) * MS
            leaves = f"leaf{a % 2}", f"leaf{b % 2}"
            path = leaves[0] if leaves[0] == leaves[1] else f"{leaves[0]}|spine0|{leaves[1]}"
            rows.append((start, start + (end - begin) * MS, address(a), address(b), 10**8, path))
    names = ["start_ns", "end_ns", "src", "dst", "bytes", "path"]
    frame = pd.DataFrame(rows, columns=names)
    run.flows.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pandas(frame if paths else frame.drop(columns="path")), run.flows)


def write_topology(run: Run) -> None:
    ends = [
        {"address": a, "server": server, "nic": 0, "gpus": [0], "switch": f"leaf{n % 2}"}
        for n, (_, _, a, server, _, _) in enumerate(RANKS)
    ]
    switches = [{"name": "leaf0", "tier": "leaf"}, {"name": "leaf1", "tier": "leaf"}]
    switches.append({"name": "spine0", "tier": "spine"})
    links = [{"a": end["address"], "b": end["switch"], "gbps": 400.0} for end in ends]
    run.write_json(run.topology, {"endpoints": ends, "switches": switches, "links": links})


def write_truth(run: Run, names: dict[str, str]) -> None:
    steps, spans = [], []
    for job, rank, _, _, _, pp in RANKS:
        for step in range(STEPS):
            begin = T0 + step * LENGTH_MS[job] * MS
            steps.append((names[job], rank, step, begin, begin + LENGTH_MS[job] * MS))
            for kind, a, b in SPANS_MS[job, pp] + END_MS[job]:
                batch = 0 if kind in SAID and SAID[kind] != "dp" and kind != "opt" else None
                times = begin + a * MS, begin + b * MS
                spans.append((names[job], rank, step, batch, kind, *times))
    ranks = [(names[j], r, a, s, 0, dp, pp, 0, 0, 0) for j, r, a, s, dp, pp in RANKS]
    pairs = [(names[j], address(a), address(b), kind, 10**9) for j, a, b, kind in PAIRS]
    fault = {"fault": 0, "kind": "slow_gpu", "culprit_kind": "address", "culprit": address(2)}
    fault |= {"job": names["A"], "rank": 2, "jobs": json.dumps([names["A"]]), "factor": 0.5}
    fault |= {"from_step": 3, "to_step": 5, "start_ns": T0 + 3000 * MS, "end_ns": T0 + 5000 * MS}
    tables: dict[str, list[Any]] = {"ranks": ranks, "pairs": pairs, "steps": steps, "spans": spans}
    for name, rows in tables.items():
        columns = [column for column in TRUTH[name].names if column != "communication"]
        frame = pd.DataFrame(rows, columns=columns)
        if name == "spans":
            frame = frame.assign(communication=pd.NA)
            frame = frame.astype({"micro_batch": "Int64", "communication": "Int64"})
        run.write_truth(name, frame)
    run.write_truth("faults", pd.DataFrame([fault]).reindex(columns=TRUTH["faults"].names))


def write_diagnosis(run: Run, evidence: str = '{"sigma": 4.2}') -> None:
    names = {"A": "job0", "B": "job1"}
    steps, spans = [], []
    for job, _, at, _, _, pp in RANKS:
        for step in range(STEPS):
            begin = T0 + step * LENGTH_MS[job] * MS
            end = begin + LENGTH_MS[job] * MS
            steps.append((names[job], at, step, begin, end, end - 50 * MS, 1.0))
            for kind, a, b in SPANS_MS[job, pp] + END_MS[job]:
                spans.append((names[job], at, step, SAID[kind], begin + a * MS, begin + b * MS))
    finding = {"finding": 7, "level": "cross_step", "symptom": "long_step", "job": "job0"}
    finding |= {"cause": "unknown"}
    finding |= {"culprit_kind": "address", "culprit": address(2), "first_step": 3, "last_step": 4}
    finding |= {"start_ns": T0 + 3000 * MS, "end_ns": T0 + 5000 * MS, "magnitude": 2.5}
    finding |= {"cost": 1e9, "confidence": 0.9, "evidence": evidence}
    false = finding | {"finding": 8, "job": "job1", "culprit": address(4), "confidence": 0.2}
    false |= {"start_ns": T0, "end_ns": T0 + 100 * MS}
    groups = [("job0", "pp", 0, address(0), 0), ("job0", "pp", 0, address(2), 1)]
    rows: dict[str, list[Any]] = {
        "jobs": [(names[job], at) for job, _, at, _, _, _ in RANKS],
        "pairs": [(names[j], address(a), address(b), kind, kind, 1.0) for j, a, b, kind in PAIRS],
        "groups": groups,
        "steps": steps,
        "spans": spans,
        "findings": [finding, false],
    }
    for name, part in rows.items():
        run.write_diagnosis(name, pd.DataFrame(part, columns=DIAGNOSIS[name].names))


MakeRun = Callable[..., Run]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Make a run folder with the given parts, by default with all of them."""
    return maker(tmp_path)


def maker(folder: Path) -> MakeRun:
    """Return the function that makes run folders below ``folder``."""

    def make(
        name: str = "whole",
        *,
        truth: bool = True,
        diagnosis: bool = True,
        flows: bool = True,
        paths: bool = True,
        topology: bool = True,
        job_names: dict[str, str] | None = None,
        **values: str,
    ) -> Run:
        run = Run(folder / name)
        run.folder.mkdir()
        names = job_names or {"A": "A", "B": "B"}
        run.write_json(run.manifest, {"name": name, "seed": 1, "method": "paper"})
        if flows:
            write_flows(run, paths=paths)
        if topology:
            write_topology(run)
        if truth:
            write_truth(run, names)
        if diagnosis:
            write_diagnosis(run, **values)
        if truth and diagnosis:
            score_run(run)
        return run

    return make


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    """A run with everything."""
    return make_run()


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    """Every figure of a run with everything; tests must not change them."""
    whole = maker(tmp_path_factory.mktemp("drawn"))()
    return {name: picture.draw(whole) for name, picture in FIGURES.items()}
