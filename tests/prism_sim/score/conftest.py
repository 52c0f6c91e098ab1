"""A small run with a known truth, and its perfect diagnosis.

Job A is DP 2 x PP 2 on a0..a3, job B is DP 2 on b0 and b1; ten steps each, of 1000 us and
800 us. Within a step of A, in us from its start (stage 0 left, stage 1 right)::

      0-100  forward           0-150  waits for, receives activation
    100-150  sends activation  150-250  forward
    150-500  waits for,        250-450  backward
             receives gradient 450-500  sends gradient
    500-700  backward
    700-900  all-reduce (replica 1 joins at 720)    the same
    900-1000 optimizer                              the same

so what can be on the wire is 100-150 and 450-500 (PP) and 720-900 (DP). A step of B is
forward 0-200, backward 200-500, all-reduce 500-700, optimizer 700-800.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from prism_sim.toolkit import Run, score_run

T0 = 1_795_225_000_000_000_000
US = 1_000
STEPS = 10
STEP_US = {"A": 1000, "B": 800}

RANKS = pd.DataFrame(
    [
        ("A", 0, "a0", "s0", 0, 0, 0),
        ("A", 1, "a1", "s1", 0, 1, 0),
        ("A", 2, "a2", "s2", 0, 0, 1),
        ("A", 3, "a3", "s3", 0, 1, 1),
        ("B", 0, "b0", "s4", 0, 0, 0),
        ("B", 1, "b1", "s5", 0, 1, 0),
    ],
    columns=["job", "rank", "address", "server", "gpu", "dp", "pp"],
).assign(tp=0, ep=0, cp=0)

PAIRS = pd.DataFrame(
    [
        ("A", "a0", "a1", "dp", 4000),
        ("A", "a1", "a0", "dp", 4000),
        ("A", "a2", "a3", "dp", 4000),
        ("A", "a3", "a2", "dp", 4000),
        ("A", "a0", "a2", "pp", 500),
        ("A", "a2", "a0", "pp", 500),
        ("A", "a1", "a3", "pp", 500),
        ("A", "a3", "a1", "pp", 500),
        ("B", "b0", "b1", "dp", 1000),
        ("B", "b1", "b0", "dp", 1000),
    ],
    columns=["job", "src", "dst", "kind", "bytes"],
)

STAGE_0 = [
    ("fwd", 0, 100, 0),
    ("send_act", 100, 150, 0),
    ("recv_grad", 150, 500, 0),
    ("bwd", 500, 700, 0),
]
STAGE_1 = [
    ("recv_act", 0, 150, 0),
    ("fwd", 150, 250, 0),
    ("bwd", 250, 450, 0),
    ("send_grad", 450, 500, 0),
]
END_0 = [("allreduce", 700, 900, None), ("opt", 900, 1000, None)]
END_1 = [("allreduce", 720, 900, None), ("opt", 900, 1000, None)]
WORK = {
    ("A", 0): STAGE_0 + END_0,
    ("A", 1): STAGE_0 + END_1,
    ("A", 2): STAGE_1 + END_0,
    ("A", 3): STAGE_1 + END_1,
} | {
    ("B", rank): [
        ("fwd", 0, 200, 0),
        ("bwd", 200, 500, 0),
        ("allreduce", 500, 700, None),
        ("opt", 700, 800, None),
    ]
    for rank in (0, 1)
}
COMPUTE = {"fwd", "bwd", "opt"}
WIRE = {"A": [("pp", 100, 150), ("pp", 450, 500), ("dp", 720, 900)], "B": [("dp", 500, 700)]}
DP_END = {"A": 900, "B": 700}
FOUND = {"A": "job0", "B": "job1"}


def begin(job: str, step: int) -> int:
    return T0 + step * STEP_US[job] * US


def _steps() -> pd.DataFrame:
    rows = [
        (job, rank, step, begin(job, step), begin(job, step + 1))
        for job, rank in WORK
        for step in range(STEPS)
    ]
    return pd.DataFrame(rows, columns=["job", "rank", "step", "start_ns", "end_ns"])


def _spans() -> pd.DataFrame:
    rows = [
        (job, rank, step, batch, kind, begin(job, step) + a * US, begin(job, step) + b * US)
        for (job, rank), work in WORK.items()
        for step in range(STEPS)
        for kind, a, b, batch in work
    ]
    names = ["job", "rank", "step", "micro_batch", "kind", "start_ns", "end_ns"]
    frame = pd.DataFrame(rows, columns=names).assign(communication=pd.NA)
    return frame.astype({"micro_batch": "Int64", "communication": "Int64"})


def a_fault(**values: Any) -> dict[str, Any]:
    """A slow GPU of rank 2 of job A in steps 4 and 5; ``values`` change it."""
    usual = {
        "fault": 0, "kind": "slow_gpu", "culprit_kind": "address", "culprit": "a2", "job": "A",
        "rank": 2, "switch": None, "jobs": json.dumps(["A"]), "factor": 0.5, "magnitude": 0.5,
        "from_step": 4, "to_step": 6, "start_ns": begin("A", 4), "end_ns": begin("A", 6),
    }  # fmt: skip
    return usual | values


def a_finding(**values: Any) -> dict[str, Any]:
    """The perfect finding for :func:`a_fault`; ``values`` change it."""
    usual = {
        "finding": 0, "level": "cross_step", "symptom": "late_first", "cause": "slow_gpu",
        "job": "job0", "culprit_kind": "address", "culprit": "a2", "first_step": 4,
        "last_step": 5, "start_ns": begin("A", 4), "end_ns": begin("A", 6), "magnitude": 2.0,
        "cost": 0.0, "confidence": 0.9, "evidence": "{}",
    }  # fmt: skip
    return usual | values


TOPOLOGY = {
    "endpoints": [
        {"address": row.address, "server": row.server, "nic": 0, "gpus": [0], "switch": "leaf0"}
        for row in RANKS.itertuples()
    ],
    "switches": [{"name": "leaf0", "tier": "leaf"}, {"name": "spine0", "tier": "spine"}],
    "links": [{"a": row.address, "b": "leaf0", "gbps": 400.0} for row in RANKS.itertuples()],
}


@dataclass
class World:
    """Truth and diagnosis tables that a test may break before it has them scored."""

    run: Run
    truth: dict[str, pd.DataFrame]
    diagnosis: dict[str, pd.DataFrame]

    def change(self, table: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        self.diagnosis[table] = change(self.diagnosis[table].copy()).reset_index(drop=True)

    def inject(self, *faults: dict[str, Any]) -> None:
        """Inject faults that differ from the usual one in these columns."""
        self.truth["faults"] = pd.DataFrame([a_fault(**values) for values in faults])

    def report(self, *findings: dict[str, Any]) -> None:
        """Report findings that differ from the perfect one in these columns."""
        rows = [{"finding": n} | values for n, values in enumerate(findings)]
        self.diagnosis["findings"] = pd.DataFrame([a_finding(**values) for values in rows])

    @staticmethod
    def begin(job: str, step: int) -> int:
        """Start of a true step [ns]."""
        return begin(job, step)

    def score(self) -> dict[str, Any]:
        for name, frame in self.truth.items():
            self.run.write_truth(name, frame)
        for name, frame in self.diagnosis.items():
            self.run.write_diagnosis(name, frame)
        self.run.write_json(self.run.topology, TOPOLOGY)
        return score_run(self.run).to_json()


def _perfect(truth: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    ranks = truth["ranks"]
    found = ranks["job"].map(FOUND)
    at = ranks.set_index(["job", "rank"])["address"]
    steps = truth["steps"].copy()
    dp_end = steps["start_ns"] + steps["job"].map(DP_END) * US
    steps["address"] = at.loc[list(zip(steps["job"], steps["rank"], strict=True))].to_numpy()
    busy = [
        (
            FOUND[job],
            at[job, rank],
            step,
            kind,
            begin(job, step) + a * US,
            begin(job, step) + b * US,
        )
        for (job, rank), work in WORK.items()
        for step in range(STEPS)
        for kind, a, b in [
            *(("compute", a, b) for kind, a, b, _ in work if kind in COMPUTE),
            *WIRE[job],
        ]
    ]
    groups = [
        ("job0", "dp", 0, "a0", None), ("job0", "dp", 0, "a1", None),
        ("job0", "dp", 1, "a2", None), ("job0", "dp", 1, "a3", None), ("job0", "pp", 0, "a0", 0),
        ("job0", "pp", 0, "a2", 1), ("job0", "pp", 1, "a3", 1), ("job0", "pp", 1, "a1", 0),
        ("job1", "dp", 0, "b1", 1), ("job1", "dp", 0, "b0", 0),
    ]  # fmt: skip
    pairs = truth["pairs"]
    return {
        "jobs": pd.DataFrame({"job": found, "address": ranks["address"]}),
        "pairs": pairs.assign(
            job=pairs["job"].map(FOUND), kind_unrefined=pairs["kind"], confidence=1.0
        ),
        "groups": pd.DataFrame(groups, columns=["job", "kind", "group", "address", "position"]),
        "steps": steps.assign(job=steps["job"].map(FOUND), dp_end_ns=dp_end, confidence=1.0),
        "spans": pd.DataFrame(
            busy, columns=["job", "address", "step", "kind", "start_ns", "end_ns"]
        ),
        "findings": pd.DataFrame([a_finding()]),
    }


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The world above with one fault and a perfect diagnosis."""
    truth = {
        "ranks": RANKS.copy(),
        "pairs": PAIRS.copy(),
        "steps": _steps(),
        "spans": _spans(),
        "faults": pd.DataFrame([a_fault()]),
    }
    return World(Run(tmp_path), truth, _perfect(truth))
