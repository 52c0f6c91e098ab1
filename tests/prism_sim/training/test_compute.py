"""Times of computation: passes, kernels, and hiccups of one step."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from faulty import CLUSTER, compute_ms, run_with
from prism_sim.toolkit import Cluster, Draws, Job, Run, Scenario, simulate, stage_costs
from prism_sim.training.compute import ComputeTimes, SpeedFactors
from prism_sim.training.config import TrainingConfig
from prism_sim.training.costs import step_flops
from prism_sim.training.kernels import layer_memory_ns
from prism_sim.training.layers import attention_flops
from tiny import TINY_MODEL


def test_every_gpu_has_a_constant_speed_of_its_own(tmp_path):
    """The same GPU is as slow for another job, with another number of servers, in any step."""
    even = compute_ms(run_with(tmp_path / "even"))
    spread = {**CLUSTER, "gpu_spread": 0.05}
    runs = [
        run_with(tmp_path / "one", cluster=spread),
        run_with(tmp_path / "two", cluster={**spread, "servers": 9}),
    ]
    one, two = (compute_ms(run) / even for run in runs)
    np.testing.assert_allclose(one, np.tile(one[[0]], 8), rtol=1e-6)
    np.testing.assert_allclose(one, two, rtol=1e-6)
    assert 0.02 < np.log(one[0]).std() < 0.1
    assert one[0].nunique() == 16
    assert len(runs[0].truth("faults")) == 0, "none of this is a fault"


def test_a_group_in_lock_step_is_as_slow_as_its_slowest_gpu():
    draws = Draws(3)
    alone = [SpeedFactors.of_gpus([gpu], 0.1, draws).duration_factor for gpu in range(8)]
    assert SpeedFactors.of_gpus(range(8), 0.1, draws).duration_factor == max(alone)
    assert min(alone) < 1 < max(alone)
    assert SpeedFactors.of_gpus(range(8), 0.0, draws).duration_factor == 1


def noise_of(seed: int = 0, **fields) -> tuple[ComputeTimes, int]:
    job = {"name": "a", "model": TINY_MODEL, "micro_batches": 64, "steps": 9, **fields}
    return ComputeTimes(TrainingConfig.model_validate(job), Draws(seed)), 2


def test_ranks_of_one_server_share_a_part_of_their_noise():
    times, rows = noise_of(compute_jitter=0.02, server_jitter=0.04)
    series = {
        (rank, server): np.log(
            np.concatenate([times.noise(rank, server, step, rows)[0] for step in range(50)])
        )
        for rank, server in ((0, 0), (1, 0), (2, 1))
    }
    together = np.corrcoef(series[0, 0], series[1, 0])[0, 1]
    apart = np.corrcoef(series[0, 0], series[2, 1])[0, 1]
    assert abs(together - 0.04**2 / (0.04**2 + 0.02**2)) < 0.05
    assert abs(apart) < 0.05
    assert abs(series[0, 0].std() - np.hypot(0.04, 0.02)) < 0.002


def test_all_ranks_of_a_job_share_the_common_noise_of_a_step():
    """It is the same for all passes of a step, and another one in the next."""
    times, rows = noise_of(common_jitter=0.1)
    drawn = np.log(
        [[times.noise(rank, rank, step, rows) for rank in (0, 5)] for step in range(400)]
    )
    assert (drawn == drawn[:, :1, :1, :1]).all()
    assert abs(drawn[:, 0, 0, 0].std() - 0.1) < 0.01


def test_a_tail_has_the_given_probability_and_index():
    times, rows = noise_of(tail_probability=0.1, tail_index=2.0)
    drawn = np.concatenate([times.noise(0, 0, step, rows).ravel() for step in range(400)])
    long = drawn[drawn > 1]
    assert abs(len(long) / len(drawn) - 0.1) < 0.01
    assert abs((long > 2).mean() - 2.0**-2) < 0.02, "the tail of a Pareto law"
    assert drawn.max() <= 100


def test_without_spread_and_noise_nothing_changes():
    times, rows = noise_of(compute_jitter=0.02)
    np.testing.assert_array_equal(times.noise(3, 1, 2, rows), times.jitter(3, 2, rows))


def test_shared_noise_is_in_the_truth_of_every_rank_of_a_server(tmp_path):
    took = compute_ms(run_with(tmp_path, server_jitter=0.05, pp=1, dp=16))
    of_server = took.groupby(took.index // 2).agg(lambda ranks: ranks.max() - ranks.min())
    assert (of_server < 1e-3).all(axis=None), "both ranks of a server"
    assert pd.Series(took.loc[::2].std()).min() > 1


MEMORY = {"memory_gbytes_per_s": 2000.0}
SIZES = {"layers": 4, "hidden": 64, "heads": 4, "vocab": 128, "sequence_length": 32}


def _job(**changes: object) -> Job:
    values = {"name": "a", "model": SIZES, "micro_batches": 1, "steps": 1, "kernels": "unfused"}
    return Job.model_validate(values | changes)


def _bytes(job: Job, moe: bool = False) -> float:
    return layer_memory_ns(job, moe, Cluster(servers=1, gpu=MEMORY)) * 2000.0


def test_a_layer_moves_the_bytes_of_each_of_its_operations() -> None:
    """A token: two norms (4 x 64 each), two sums with dropout (13 - 6 = 7 x 64), GeLU (4 x 256),
    and 13 bytes a score of 4 heads and 32 tokens."""
    between, inside, scores = 2 * (4 + 7) * 64, 4 * 256, 13 * 4 * 32
    assert _bytes(_job()) == pytest.approx(32 * (between + inside + scores))
    assert _bytes(_job(tp=4)) == pytest.approx(32 * (between + (inside + scores) / 4))
    shared = _bytes(_job(tp=4, sequence_parallel=True))
    assert shared == pytest.approx(32 * (between + inside + scores) / 4)


def test_fused_kernels_keep_scores_on_the_chip_and_skip_masked_ones() -> None:
    fused, unfused = _job(kernels="fused"), _job()
    assert _bytes(fused) == pytest.approx(32 * (2 * (4 + 6) * 64 + 4 * 256))
    assert attention_flops(fused) == attention_flops(unfused) / 2
    assert step_flops(fused) < step_flops(unfused)


@pytest.mark.parametrize(("recompute", "again"), [("none", 0), ("selective", 1), ("full", 2)])
def test_backward_moves_twice_the_bytes_and_those_of_recomputation(
    recompute: str, again: int
) -> None:
    """The memory time of a pass is its time with free products."""
    cluster = Cluster(servers=1, gpu={"peak_tflops": 1e9, **MEMORY})
    (cost,) = stage_costs(_job(recompute=recompute), cluster)
    whole, scores = 32 * (2 * 11 * 64 + 4 * 256 + 13 * 4 * 32), 32 * 13 * 4 * 32
    forward = 4 * whole / 2000.0
    extra = (0, 4 * scores / 2000.0, forward)[again]
    assert cost.forward_ns == pytest.approx(forward, rel=1e-4)
    assert cost.backward_ns == pytest.approx(2 * forward + extra, rel=1e-4)


def test_ideal_kernels_cost_nothing() -> None:
    assert _bytes(_job(kernels="ideal")) == 0


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
