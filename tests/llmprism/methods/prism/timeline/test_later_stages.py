"""Begins of steps after pauses, in pipelines whose stages end a step at different times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.timeline.later_stages import _Activations, _computed, _forward_ns
from scores import assert_exact

CLUSTER = """\
cluster: {servers: 16, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 200,
          fabric: {kind: tor, leaf_ports: 8, spines: 2}}
storage: [s0015]
"""
MODEL = "{layers: 8, hidden: 3072, heads: 24, vocab: 100352, sequence_length: 4096}"
HOST_MS = 8


@pytest.mark.parametrize(
    ("arrivals", "messages", "ready"),
    [
        ([10.0, 20.0], [1.0, 1.0], 23.0),  # each is computed before the next one arrives
        ([10.0, 11.0], [1.0, 1.0], 16.0),  # the second one waits
        ([10.0], [4.0], 13.0),  # a record of several messages ends with the last one
    ],
)
def test_passes_are_computed_one_after_the_other(arrivals, messages, ready):
    assert _computed(np.array(arrivals), np.array(messages), 3.0) == ready


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize(
    "pause",
    [
        "evaluation: {every: 2, micro_batches: 1}",
        "evaluation: {every: 3, micro_batches: 6}",
        "checkpoint: {every: 3, mode: sync}",
    ],
)
def test_steps_of_unequal_stages_begin_after_a_pause_when_they_do(scored, stages, pause):
    """The last stage also computes the vocabulary: it takes longer."""
    keys = f"dp: 3, pp: {stages}, micro_batches: 6, steps: 10, micro_batch_size: 2, {pause}"
    fixed = f"mfu: 0.4, compute_jitter: 0.005, step_overhead_ms: {HOST_MS}"
    run = scored(f"{CLUSTER}jobs:\n  - {{name: solo, model: {MODEL}, {fixed}, {keys}}}\n")
    assert_exact(run.score)
    assert run.score["timeline"]["step_error_mean"] <= 0.001


@pytest.mark.slow
@pytest.mark.parametrize("micro_batches", [2, 8])
@pytest.mark.parametrize("stages", [2, 4])
def test_steps_of_a_program_that_warms_up_begin_a_longer_pass_before(scored, stages, micro_batches):
    """The first three steps take up to 1.8 times as long, their passes too."""
    keys = f"dp: 3, pp: {stages}, micro_batches: {micro_batches}, steps: 12"
    fixed = "mfu: 0.4, compute_jitter: 0.005, warm_up_steps: 3, warm_up_factor: 1.8"
    run = scored(f"{CLUSTER}jobs:\n  - {{name: solo, model: {MODEL}, {fixed}, {keys}}}\n")
    assert run.score["timeline"]["coverage"] == 1
    assert run.score["timeline"]["step_error_mean"] <= 0.001
    assert run.score["timeline"]["step_error_max"] <= 0.01


def test_each_rank_of_the_first_stage_begins_when_it_shows(scored):
    """Host work of ranks differs; what others of their stage take says nothing about it."""
    keys = "dp: 4, pp: 2, micro_batches: 6, steps: 8, mfu: 0.4, compute_jitter: 0.005"
    host = "step_overhead_ms: 20, step_overhead_jitter: 0.5"
    run = scored(f"{CLUSTER}jobs:\n  - {{name: solo, model: {MODEL}, {keys}, {host}}}\n")
    ranks = run.truth("ranks")
    true = run.truth("steps").merge(ranks[ranks["pp"] == 0][["rank", "address"]], on="rank")
    both = true.merge(run.diagnosis.steps, on=["address", "step"], suffixes=("_true", ""))
    late_ns = (both["start_ns"] - both["start_ns_true"])[both["step"] > 0]
    assert len(late_ns) == 4 * 7
    assert late_ns.abs().max() < 1e6


@pytest.mark.parametrize(("forward_ns", "last_ns"), [(10e6, 15e6), (0.0, 10e6)])
def test_a_backward_pass_takes_two_forward_passes_where_no_forward_pass_shows(forward_ns, last_ns):
    """The last stage answers after 30 ms: two passes of 15 ms, or three of 10 ms."""
    one = np.array([1])
    activations = _Activations(0 * one, one, 0.0 * one, 0.0 * one, 1000 * one)
    step = np.array([[0], [50_000_000]])
    moments = {"pp": SimpleNamespace(start_ns=step, sent_ns=step + 30_000_000)}
    pipelines: Any = SimpleNamespace(length=2, middle_ns=np.nan, stage=np.arange(2))
    pipelines.forward_ns, pipelines.backward_ns = forward_ns, 10e6
    found = _forward_ns(activations, SimpleNamespace(moments=moments), pipelines)
    assert found[-1] == last_ns
