"""Faults in a small job, and their effects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, load_tables, score_faults, simulate
from tiny import simulate_one

CLUSTER: dict[str, Any] = {
    "servers": 8, "gpus_per_server": 2, "nics_per_server": 2,
    "fabric": {"kind": "tor", "leaf_ports": 4, "spines": 2},
}  # fmt: skip
JOB: dict[str, Any] = {"dp": 8, "pp": 2, "micro_batches": 4, "steps": 8, "mfu": 0.001}
"""Sixteen ranks, one a GPU: stage 0 on servers 0 to 3, stage 1 on servers 4 to 7."""


def run_with(folder: Path, *faults: dict[str, Any], **fields: Any) -> Run:
    """Simulate the job with ``faults``; ``fields`` change it."""
    return simulate_one(folder, **{"cluster": CLUSTER, "faults": [*faults], **JOB, **fields})


def compute_ms(run: Run) -> pd.DataFrame:
    """Duration of all passes of each rank (rows) in each step (columns) [ms]."""
    spans = run.truth("spans")
    spans = spans[spans["kind"].isin(["fwd", "bwd"])]
    took = (spans["end_ns"] - spans["start_ns"]) / 1e6
    return took.groupby([spans["rank"], spans["step"]]).sum().unstack()


def step_ms(run: Run) -> pd.Series:
    """Duration of each step, over all ranks [ms]."""
    steps = run.truth("steps").groupby("step")
    return (steps["end_ns"].max() - steps["start_ns"].min()) / 1e6


def fault_of(run: Run) -> dict[str, Any]:
    """The only fault in the truth."""
    (fault,) = run.truth("faults").to_dict("records")
    return fault


def diagnosed(folder: Path, world: dict[str, Any] | Scenario) -> Any:
    """The tables of a world that was simulated and diagnosed."""
    run = Run(folder)
    simulate(Scenario.model_validate(world), run)
    diagnose(run.flows, run.topology, method="prism").write(run.diagnosis_folder)
    return load_tables(run)


def assert_named(case: Any, *, alone: bool = True, with_cause: bool = True) -> None:
    """The culprit of the only fault is named, ``with_cause``, and nothing else if ``alone``."""
    score = score_faults(case)
    assert [match.localized for match in score.matches] == [True]
    assert not with_cause or [match.cause_right for match in score.matches] == [True]
    assert not alone or score.false_alarms == 0
