"""The truth of hiccups: by how much chance makes the own work of a rank longer in a step."""

from __future__ import annotations

import pandas as pd
import pytest

from prism_sim.toolkit import Run, Scenario, simulate
from tiny import TINY_MODEL

PASSES = ("fwd", "bwd")


def simulated(folder, **job) -> Run:
    values = {
        "cluster": {"servers": 3, "gpus_per_server": 1, "nics_per_server": 1},
        "jobs": [
            {"name": "a", "model": TINY_MODEL, "dp": 3, "micro_batches": 4, "steps": 12,
             "overlap_gradients": False, **job}
        ],
    }  # fmt: skip
    run = Run(folder)
    simulate(Scenario.model_validate(values), run)
    return run


def computed_ns(run: Run) -> pd.Series:
    """Time in passes of each rank in each step."""
    spans = run.truth("spans")
    spans = spans[spans["kind"].isin(PASSES)]
    took = (spans["end_ns"] - spans["start_ns"]).groupby([spans["rank"], spans["step"]])
    return took.sum()


def test_work_that_never_varies_has_no_hiccups(tmp_path):
    assert simulated(tmp_path).truth("hiccups").empty


@pytest.mark.parametrize(
    "varied", [{"tail_probability": 0.05}, {"compute_jitter": 0.5}, {"server_jitter": 0.1}]
)
def test_a_hiccup_is_what_the_passes_of_a_step_take_beyond_the_nominal_time(tmp_path, varied):
    extra_ns = computed_ns(simulated(tmp_path / "varied", **varied))
    extra_ns -= computed_ns(simulated(tmp_path / "nominal"))
    run = Run(tmp_path / "varied")
    hiccups = run.truth("hiccups").set_index(["rank", "step"])["extra_ns"]
    steps = run.truth("steps")
    least_ns = 0.03 * (steps["end_ns"] - steps["start_ns"]).median()
    assert len(hiccups) > 0
    assert sorted(hiccups.index) == sorted(extra_ns[extra_ns >= least_ns].index)
    assert (hiccups - extra_ns[hiccups.index]).abs().max() <= 8, "each pass is rounded"


def test_late_host_work_is_a_hiccup_of_the_step_that_it_delays(tmp_path):
    run = simulated(tmp_path, step_overhead_ms=10, step_overhead_jitter=0.5)
    hiccups = run.truth("hiccups")
    assert len(hiccups) > 0
    assert 0 not in set(hiccups["step"]), "no host work comes before the first step"
