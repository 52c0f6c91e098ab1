"""Recordings of two steps: pipelines show in messages that wait for answers."""

from __future__ import annotations

import pytest

from scores import assert_exact

CLUSTER = """\
cluster: {servers: 16, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 200,
          fabric: {kind: tor, leaf_ports: 8, spines: 2}}
"""
MODEL = "{layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048}"


def scenario(**fields: object) -> str:
    """A scenario with one job of these ``fields``."""
    keys = ", ".join(f"{name}: {value}" for name, value in fields.items())
    return f"{CLUSTER}jobs:\n  - {{name: a, model: {MODEL}, mfu: 0.4, {keys}}}\n"


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-h1", "interleaved"])
@pytest.mark.parametrize("replicas", [1, 4])
def test_two_steps_of_a_pipeline_have_a_timeline(scored, schedule, replicas):
    fields = {"dp": replicas, "pp": 4, "micro_batches": 8, "steps": 2, "schedule": schedule}
    run = scored(scenario(**fields, **({"chunks": 2} if schedule == "interleaved" else {})))
    assert run.score["pairs"]["accuracy"] == run.score["timeline"]["coverage"] == 1
    if replicas > 1:  # without gradients the update cannot be seen
        assert_exact(run.score)
        assert run.score["timeline"]["step_error_mean"] <= 0.003
    (layout,) = run.diagnosis.layouts.to_dict("records")
    assert (layout["dp"], layout["pp"], layout["micro_batches"]) == (replicas, 4, 8)
    assert layout["confidence"] <= 0.8


def test_few_steps_are_believed_where_silences_far_shorter_than_a_step_end_records(scored):
    text = scenario(dp=4, micro_batches=1, zero_stage=0, steps=5).replace(": 200", ": 10")
    run = scored(text + "collector: {message_boundary: false, idle_gap_us: 500}\n")
    assert run.score["timeline"]["coverage"] == 1
