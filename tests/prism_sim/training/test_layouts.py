"""The truth about layouts: the sizes make one grid, and the rest is what the scenario says."""

from __future__ import annotations

import numpy as np
import pytest

from prism_sim.toolkit import load_tables

AXES = ["dp", "pp", "tp", "ep", "cp"]
EXPERTS = {"moe": {"experts": 4}, "ep": 2}


@pytest.mark.parametrize(
    ("fields", "sizes", "rest"),
    [
        (
            {"dp": 2, "pp": 2, "tp": 2, "micro_batches": 3, "zero_stage": 0},
            [2, 2, 2, 1, 1],
            [3, "1f1b", "none"],
        ),
        ({"dp": 4, "pp": 1, "tp": 1, "zero_stage": 3}, [4, 1, 1, 1, 1], [2, "none", "zero3"]),
        (
            {"dp": 4, "pp": 1, "tp": 1, "zero_stage": 3, "hybrid_shards": 2},
            [4, 1, 1, 1, 1],
            [2, "none", "hybrid"],
        ),
        ({"dp": 4, "pp": 1, "tp": 1, **EXPERTS}, [2, 1, 1, 2, 1], [2, "none", "zero1"]),
        ({"dp": 1, "pp": 2, "tp": 1, "schedule": "gpipe"}, [1, 2, 1, 1, 1], [2, "gpipe", "none"]),
    ],
)
def test_layouts_of_the_truth_are_those_of_the_scenario(simulated, fields, sizes, rest):
    run = simulated(placement="spread", **{"micro_batches": 2, "steps": 3, **fields})
    (row,) = run.truth("layouts").to_dict("records")
    assert [row[axis] for axis in AXES] == sizes
    assert np.prod(sizes) == len(run.truth("ranks"))
    assert [row[name] for name in ("micro_batches", "schedule", "sharding")] == rest
    steps = run.truth("steps")
    assert row["period_ns"] == int((steps["end_ns"] - steps["start_ns"]).median())


def test_a_truth_without_layouts_is_scored(simulated):
    """Captures from elsewhere have none."""
    run = simulated(dp=2, pp=1, steps=3)
    (run.folder / "truth" / "layouts.parquet").unlink()
    from llmprism.pipeline import diagnose

    diagnose(run.flows, run.topology).write(run.diagnosis_folder)
    assert load_tables(run).truth["layouts"].empty
