"""Schedules, and layouts that are less sure than they seem, each in a small world."""

from __future__ import annotations

import numpy as np
import pytest

import prism_sim as ps
from llmprism.methods.prism.pipelines.last_stage import _times
from llmprism.methods.prism.pipelines.micro_batches import _without_loss, divided

MODEL = "{layers: %d, hidden: 1024, heads: 8, vocab: 32000, sequence_length: 2048}"
WORLD = """\
cluster: {servers: %d, gpus_per_server: 1, nics_per_server: 1, nic_gbps: %d,
          fabric: {kind: tor, leaf_ports: 4, spines: 2}}
jobs:
  - {name: solo, model: %s, mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 5, %s}
"""
MERGED = """\
collector:
  idle_gap_us: 5000
  message_boundary: false
  effects: [{kind: headers}%s]
"""


@pytest.fixture
def diagnosed(tmp_path):
    """Simulate a world of one job, and return the run."""

    def run(keys, collector="", servers=8, gbps=200, layers=12, seed=1):
        text = WORLD % (servers, gbps, MODEL % layers, keys) + collector
        (tmp_path / "world.yaml").write_text(text)
        return ps.run(tmp_path / "world.yaml", out=tmp_path / "run", seed=seed)

    return run


def layout(run):
    (row,) = run.diagnosis.layouts.to_dict("records")
    return row


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1", "gpipe"])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_the_last_stage_shows_the_schedule(diagnosed, schedule, stages, recompute):
    """Half a backward pass of a middle stage that computes activations again looks whole."""
    keys = f"dp: 2, pp: {stages}, micro_batches: 8, steps: 6, recompute: {recompute}"
    run = diagnosed(f"{keys}, schedule: {schedule}")
    twice = recompute == "full" and schedule == "zb-h1" and stages > 2
    assert layout(run)["schedule"] in ((schedule, "unknown") if twice else (schedule,))
    assert layout(run)["micro_batches"] == 8


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_a_last_stage_that_waits_shows_no_schedule(diagnosed, schedule):
    """It computes gradients of its weights while it waits for a slow first stage."""
    keys = "dp: 2, pp: 2, stage_factors: [2.5, 1], micro_batches: 8, steps: 6"
    assert layout(diagnosed(f"{keys}, schedule: {schedule}"))["schedule"] == "unknown"


@pytest.mark.slow
@pytest.mark.parametrize("micro_batches", [6, 8])
def test_a_fast_second_stage_holds_no_chunks(diagnosed, micro_batches):
    """Its gradients follow each other as fast as activations of the first stage do."""
    keys = f"dp: 2, pp: 2, stage_layers: [9, 3], micro_batches: {micro_batches}, steps: 6"
    run = diagnosed(f"{keys}, schedule: gpipe, head_on_last_stage: false")
    assert layout(run)["micro_batches"] == micro_batches
    assert layout(run)["schedule"] == "gpipe"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_late_first_answer_hides_no_split_pass(diagnosed, seed):
    """The last stage is still at its update when it gets the first activation."""
    keys = "dp: 4, pp: 3, stage_layers: [1, 5, 3], micro_batches: 7, steps: 6, schedule: zb-h1"
    assert layout(diagnosed(keys, servers=12, gbps=50, layers=9, seed=seed))["schedule"] != "1f1b"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("wait", ["dp: 4, zero_stage: 3", "dp: 2, tp: 2"])
def test_waiting_for_collectives_is_no_split_pass(diagnosed, wait, seed):
    keys = f"{wait}, pp: 2, micro_batches: 6, steps: 6"
    assert layout(diagnosed(keys, gbps=50, seed=seed))["schedule"] != "zb-h1"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_exchanges_that_are_a_part_of_every_answer_hide_split_passes(diagnosed, seed):
    keys = "dp: 2, tp: 2, pp: 2, micro_batches: 8, steps: 6, schedule: zb-h1"
    assert layout(diagnosed(keys, gbps=50, layers=4, seed=seed))["schedule"] != "1f1b"


@pytest.mark.slow
def test_chunks_are_not_overlooked_on_a_network_slower_than_forward_passes(diagnosed):
    keys = "dp: 4, pp: 2, micro_batches: 6, steps: 6, schedule: interleaved, chunks: 2"
    found = layout(diagnosed(keys, gbps=50, layers=4))
    assert (found["schedule"], found["micro_batches"]) in (("interleaved", 6), ("unknown", -1))


def test_messages_that_fit_no_number_of_chunks_have_one():
    assert divided(8, 0) == (8, 1)
    assert divided(18, 0) == (-1, 0)
    assert divided(18, 2) == (6, 2)


@pytest.mark.slow
@pytest.mark.parametrize("one_in", [100, 1000])
@pytest.mark.parametrize("tensor", [2, 4])
def test_samples_of_tensor_parallel_exchanges_are_no_gradients(diagnosed, tensor, one_in):
    """Of long sequences, they move far more than gradients do."""
    keys = f"dp: 2, tp: {tensor}, sequence_length: 4096, recompute: full, micro_batches: 4"
    collector = MERGED % f", {{kind: sampling, one_in: {one_in}}}"
    run = diagnosed(f"{keys}, micro_batch_size: 4, steps: 12", collector, layers=8, gbps=100)
    both = run.truth("pairs").merge(run.diagnosis.pairs, on=["src", "dst"], suffixes=("", "_found"))
    assert len(both) > 0
    assert ((both["kind"] == both["kind_found"]) | (both["kind_found"] == "unknown")).all()


@pytest.mark.slow
def test_a_layout_is_no_surer_than_the_pairs_that_it_comes_from(diagnosed):
    """Two tensor-parallel groups of two look like two stages, if records hold a step each."""
    keys = "dp: 2, tp: 2, sequence_parallel: true, micro_batches: 2, steps: 8"
    run = diagnosed(keys, MERGED % "")
    assert layout(run)["confidence"] <= run.diagnosis.pairs["confidence"].max()
    wrong = layout(run)["tp"] != 2
    assert not wrong or layout(run)["confidence"] <= 0.75


@pytest.mark.slow
def test_passes_of_a_single_step_are_no_steps(diagnosed):
    keys = "dp: 2, tp: 2, micro_batches: 6, steps: 1"
    run = diagnosed(keys)
    assert len(run.diagnosis.steps) <= len(run.truth("steps"))
    assert set(run.diagnosis.pairs["kind"]) <= {"unknown"}


def test_answers_of_a_few_ticks_of_the_clock_show_no_ratio():
    """One, two and three ticks are 1, 4/3 or 3/2 of each other after rounding."""
    late, early = [3e6] * 40, [3e6] * 40
    assert _times(late, early, 1) == 1
    assert np.isnan(_times(late, early, 1_000_000))
    assert _times([9e6] * 40, [9e6] * 40, 1_000_000) == 1


def test_messages_of_steps_that_lack_some_are_as_many_as_the_fullest_steps_have():
    rng = np.random.default_rng(1)
    assert _without_loss(rng.binomial(24, 0.95, 400).astype(float), 23.0) == 24
    assert _without_loss(np.full(400, 24.0), 24.0) == 24
    evaluated = np.where(np.arange(400) % 4 == 0, 32.0, 24.0)
    assert _without_loss(evaluated, 24.0) == 24
