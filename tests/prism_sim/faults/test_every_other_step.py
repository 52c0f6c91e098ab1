"""Steps where a rank with sharded parameters is late in every other one."""

from __future__ import annotations

import pytest

from llmprism.pipeline import diagnose_files
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.score.load import load as load_case
from prism_sim.score.timeline import score_timeline
from prism_sim.simulate import simulate

MODEL = {"layers": 8, "hidden": 4096, "heads": 32, "vocab": 32000, "sequence_length": 2048}
MERGED = {"message_boundary": False, "idle_gap_us": 1000}
ROUNDED = {
    "message_boundary": False,
    "idle_gap_us": 5000,
    "effects": [{"kind": "granularity", "unit_ns": 1_000_000}],
}


def coverage(folder, stall, telemetry):
    """Share of the steps that are found, of 12 that last 535 ms, and with a stall 574 ms."""
    world = {
        "name": "other",
        "seed": 31,
        "cluster": {
            "servers": 8,
            "gpus_per_server": 1,
            "nics_per_server": 1,
            "fabric": {"kind": "tor", "leaf_ports": 8, "spines": 2},
        },
        "jobs": [
            {
                "name": "train", "model": MODEL, "dp": 8, "micro_batches": 2, "zero_stage": 3,
                "steps": 12, "mfu": 0.4, "compute_jitter": 0.01, "step_overhead_ms": 5,
            }
        ],
        "collector": telemetry,
        "faults": [{"kind": "loader_stalls", "job": "train", "rank": 2, "every": 2, **stall}],
    }  # fmt: skip
    run = Run(folder)
    simulate(Scenario.model_validate(world), run)
    diagnose_files(run.flows, run.topology, method="prism").write(run.diagnosis_folder)
    return score_timeline(load_case(run)).coverage


@pytest.mark.parametrize("telemetry", [{}, MERGED, ROUNDED], ids=["exact", "merged", "rounded"])
@pytest.mark.parametrize("from_step", [0, 4])
@pytest.mark.parametrize("stall_ms", [40, 80])
def test_two_steps_are_not_taken_for_one(tmp_path, stall_ms, from_step, telemetry):
    """A rank that is waited for in the first gather makes a silence, and some hops are ahead."""
    stall = {"stall_ms": stall_ms, "from_step": from_step}
    assert coverage(tmp_path, stall, telemetry) == 1
