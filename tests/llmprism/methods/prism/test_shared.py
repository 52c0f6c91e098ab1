"""Jobs that share a part of the network: the evidence of both counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, simulate
from tiny import TINY_MODEL


def job(name: str, servers: list[int], **fields: Any) -> dict[str, Any]:
    placed = {"servers": [f"s{one:04}" for one in servers]}
    job = {"name": name, "model": TINY_MODEL, "steps": 24, "dp": 4, "tp": 8, "placement": placed}
    return job | fields


@pytest.mark.xfail(reason="ranks of a tensor-parallel group wait for each other inside the server")
def test_a_switch_that_slows_two_jobs_is_the_culprit_of_both(tmp_path: Path) -> None:
    slow = {"kind": "slow_switch", "switch": "leaf001", "factor": 0.3, "from_s": 0.07, "to_s": 0.13}
    scenario = {
        "cluster": {"servers": 8, "fabric": {"kind": "tor", "leaf_ports": 32}},
        "jobs": [
            job("a", [0, 1, 4, 5], micro_batches=2),
            job("b", [2, 3, 6, 7], micro_batches=2, start_s=0.0017),
        ],
        "faults": [slow],
    }
    run = Run(tmp_path / "run")
    simulate(Scenario.model_validate(scenario), run)
    table = diagnose(run.flows, run.topology, method="prism").findings
    assert table["job"].nunique() == 2
    assert set(table["culprit"]) == {"leaf001"}


def test_a_job_is_slower_while_another_one_shares_its_links(tmp_path: Path) -> None:
    """The other job begins later and ends earlier; in between, both share one uplink of each."""
    scenario = {
        "cluster": {"servers": 8, "fabric": {"kind": "tor", "leaf_ports": 32, "spines": 1}},
        "jobs": [
            job("a", [0, 1, 4, 5], steps=40, micro_batches=2),
            job("b", [2, 3, 6, 7], steps=10, micro_batches=2, start_s=0.08),
        ],
    }
    run = Run(tmp_path / "run")
    simulate(Scenario.model_validate(scenario), run)
    took_ns = run.truth("steps").query("job == 'a'").groupby("step")["end_ns"].max().diff()
    assert took_ns.max() > 1.1 * took_ns.median()
    assert diagnose(run.flows, run.topology, method="prism").findings.empty
