"""Healthy computation is not uniform: GPUs differ, servers share noise, tails are heavy."""

from __future__ import annotations

import numpy as np
import pandas as pd

from faulty import CLUSTER, compute_ms, run_with
from prism_sim.draws import Draws
from prism_sim.training.compute import ComputeTimes, SpeedFactors
from prism_sim.training.config import TrainingConfig
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
