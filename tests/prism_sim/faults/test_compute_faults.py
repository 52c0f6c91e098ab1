"""Faults of GPUs, servers and stages: the affected ranks, their speed, and the time."""

from __future__ import annotations

import json

import numpy as np
import pytest

from faulty import CLUSTER, JOB, compute_ms, fault_of, run_with, step_ms


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return run_with(tmp_path_factory.mktemp("healthy"))


def ratio_to(healthy, run):
    return (compute_ms(run) / compute_ms(healthy)).round(9)


def test_a_thermal_ramp_falls_step_by_step_and_stays(healthy, tmp_path):
    ramp_s = 4 * step_ms(healthy).median() / 1e3
    fault = {"kind": "thermal_ramp", "job": "a", "rank": 3, "factor": 0.5, "ramp_s": ramp_s}
    run = run_with(tmp_path, fault | {"from_step": 1, "to_step": 7})
    ratio = ratio_to(healthy, run)
    own = ratio.loc[3]
    assert own[0] == own[7] == 1
    assert (np.diff(own.loc[0:6]) > 0).all(), "slower from step to step"
    assert own[6] == pytest.approx(2)
    assert (ratio.drop(index=3) == 1).all(axis=None)
    assert fault_of(run)["magnitude"] == 0.5


def test_an_intermittent_gpu_is_slow_in_its_pulses_only(healthy, tmp_path):
    step_s = float(step_ms(healthy).median()) / 1e3
    fault = {"kind": "intermittent_gpu", "job": "a", "rank": 3, "factor": 0.5, "from_step": 2}
    run = run_with(tmp_path, fault | {"every_s": 4 * step_s, "lasts_s": step_s})
    own = ratio_to(healthy, run).loc[3]
    assert (own[[0, 1]] == 1).all()
    assert own[2] > 1.2
    assert (own[[4, 5]] == 1).all(), "between two pulses"
    assert own[6:7].max() > 1.1, "the second pulse"
    assert own.max() < 2.001


@pytest.mark.parametrize(
    ("fault", "ranks", "culprit"),
    [
        ({"kind": "slow_server", "server": "s0001"}, [2, 3], ("server", "s0001")),
        ({"kind": "uneven_stage", "stage": 1, "job": "a"}, range(8, 16), ("stage", "a stage 1")),
    ],
)
def test_all_ranks_of_the_place_are_slow_and_no_others(healthy, tmp_path, fault, ranks, culprit):
    window = {"factor": 0.8, "job": "a", "from_step": 2, "to_step": 4}
    run = run_with(tmp_path, {**fault, **window})
    ratio = ratio_to(healthy, run)
    for rank, own in ratio.iterrows():
        expected = [1, 1, 1.25, 1.25, 1, 1, 1, 1] if rank in ranks else [1] * 8
        np.testing.assert_allclose(own, expected, rtol=0.01)
    truth = fault_of(run)
    assert (truth["culprit_kind"], truth["culprit"]) == culprit
    assert (json.loads(truth["jobs"]), truth["magnitude"]) == (["a"], pytest.approx(0.2))


def test_pauses_of_garbage_collection_hit_one_rank_after_another(healthy, tmp_path):
    step_s = float(step_ms(healthy).median()) / 1e3
    pause_ms = 500 * step_s
    fault = {"kind": "gc_pauses", "server": "s0001", "pause_ms": pause_ms, "every_s": 4 * step_s}
    run = run_with(tmp_path, fault | {"job": "a", "from_step": 1})
    extra = compute_ms(run) - compute_ms(healthy)
    hit = extra > pause_ms / 2
    assert set(hit.index[hit.any(axis=1)]) == {2, 3}
    assert not (hit.loc[2] & hit.loc[3]).any(), "never both"
    np.testing.assert_allclose(extra[hit].stack().dropna(), pause_ms, rtol=0.01)
    assert fault_of(run)["magnitude"] == pytest.approx(0.5 / 4.5)


def test_a_loader_stalls_before_every_nth_step(healthy, tmp_path):
    stall_ms = 0.3 * step_ms(healthy).median()
    fault = {"kind": "loader_stalls", "job": "a", "rank": 5, "stall_ms": stall_ms, "every": 2}
    run = run_with(tmp_path, fault | {"from_step": 1, "to_step": 6})
    extra = (compute_ms(run) - compute_ms(healthy)).loc[5]
    np.testing.assert_allclose(extra, stall_ms * np.array([0, 1, 0, 1, 0, 1, 0, 0]), atol=0.01)
    slower = step_ms(run) / step_ms(healthy)
    assert (slower[[1, 3, 5]] > 1.2).all()
    assert fault_of(run)["magnitude"] == pytest.approx(0.15 / 1.15, rel=0.2)


def test_degraded_nvlink_slows_exchanges_of_a_tensor_parallel_group(tmp_path):
    """The exchange takes 5 times as long; how much of a pass it is, follows from NVLink's rate."""
    fields = {"dp": 4, "tp": 2, "mfu": 0.5}
    slow = {"kind": "degraded_nvlink", "job": "a", "rank": 2, "factor": 0.2, "from_step": 3}
    cluster = {"nvlink_gbps": 400}
    runs = [
        run_with(tmp_path / name, *faults, **fields, cluster={**CLUSTER, **cluster, **more})
        for name, faults, more in (
            ("healthy", [], {}),
            ("slow", [slow], {}),
            ("all slow", [], {"nvlink_gbps": 80, "nvlink_latency_ns": 125}),
        )
    ]
    of_one, of_all = (ratio_to(runs[0], run) for run in runs[1:])
    assert of_all[4][2] > 1.1
    assert of_one.loc[2, 4] == pytest.approx(of_all.loc[2, 4], rel=0.02)
    assert of_one.loc[3, 4] == of_one.loc[2, 4], "the group is in lock-step"
    assert (of_one.loc[4:, 4] < 1.01).all()


def test_several_faults_at_once_combine(healthy, tmp_path):
    window = {"job": "a", "from_step": 2, "to_step": 5}
    slow = {"kind": "slow_gpu", "rank": 2, "factor": 0.5, **window}
    server = {"kind": "slow_server", "server": "s0001", "factor": 0.5, **window}
    run = run_with(tmp_path, slow, server)
    ratio = ratio_to(healthy, run)
    np.testing.assert_allclose(ratio.loc[[2, 3], 3], [4, 2], rtol=0.01)
    assert run.truth("faults")["kind"].tolist() == ["slow_gpu", "slow_server"]
    assert JOB["steps"] == 8
