"""Recordings of one or two steps: pipelines show in messages that wait for answers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.jobs.two_steps import two_steps
from llmprism.methods.prism.kinds.unanswered import sends_ahead
from llmprism.methods.prism.records.traffic import Traffic
from scores import assert_exact

MS = 1_000_000
CLUSTER = """\
cluster: {servers: 16, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 200,
          fabric: {kind: tor, leaf_ports: 8, spines: 2}}
"""
MODEL = "{layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048}"


def scenario(**fields: object) -> str:
    """A scenario with one job of these ``fields``."""
    keys = ", ".join(f"{name}: {value}" for name, value in fields.items())
    return f"{CLUSTER}jobs:\n  - {{name: a, model: {MODEL}, mfu: 0.4, {keys}}}\n"


def pipeline(orders: str, size: int = 1_000_000) -> Traffic:
    """Messages of two stages, 10 ms apart: ``f`` is an activation, ``b`` a gradient."""
    start = np.arange(len(orders), dtype=np.int64) * 10 * MS
    forth = np.array([order == "f" for order in orders])
    return Traffic(
        np.arange(start.size, dtype=np.int32), start, start + 2 * MS,
        np.full(start.size, size), np.zeros(start.size, np.int32), forth,
    )  # fmt: skip


def found(traffic: Traffic):
    """The two steps of a component with this ``traffic`` only; None if it shows none."""
    one = TrafficClass(np.array([0, 1]), two_way=True, traffic=traffic)
    component = Component(np.array([0, 1], np.int32), (one,))
    return two_steps(connections(traffic), component, nodes=2)


def connections(traffic: Traffic) -> SimpleNamespace:
    """The two directions of a couple, and which of them each record is of."""
    way = np.where(traffic.forth, 0, 1)
    return SimpleNamespace(src=np.array([0, 1]), dst=np.array([1, 0]), of_row=way)


def test_two_steps_part_where_every_activation_has_its_gradient():
    stepping = found(pipeline("ffbfbb" * 2))
    assert stepping.count == 2
    assert stepping.start_ns.tolist() == [0, 60 * MS]
    assert stepping.end_ns.tolist() == [52 * MS, 112 * MS]
    assert stepping.step_of[0].tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize(
    "orders",
    [
        "ffbfbb",  # one step is under way after half of its messages
        "ffbfbb" * 4,  # four steps: two of them are no step
        "fb" * 4,  # the second stage has one activation at a time: these may be micro-batches
        "ffbfbb" + "ffbb",  # not half of the bytes
    ],
)
def test_other_halves_are_no_steps(orders):
    assert found(pipeline(orders)) is None


@pytest.mark.parametrize(("orders", "ahead"), [("ffbfbb", True), ("fbfb", False), ("fbbf", False)])
def test_a_stage_sends_several_activations_before_it_gets_a_gradient(orders, ahead):
    traffic = pipeline(orders)
    one = TrafficClass(np.array([0, 1]), two_way=True, traffic=traffic)
    step = np.zeros(len(traffic), np.int32)
    assert sends_ahead(connections(traffic), one, step, 1, nodes=2) is ahead


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-h1", "interleaved"])
@pytest.mark.parametrize("replicas", [1, 4])
def test_two_steps_of_a_pipeline_have_a_timeline(scored, schedule, replicas):
    fields = {"dp": replicas, "pp": 4, "micro_batches": 8, "steps": 2, "schedule": schedule}
    chunks = {"chunks": 2} if schedule == "interleaved" else {}
    run = scored(scenario(**fields, **chunks))
    assert run.score["pairs"]["accuracy"] == run.score["timeline"]["coverage"] == 1
    if replicas > 1:  # without gradients the update cannot be seen
        assert_exact(run.score)
        assert run.score["timeline"]["step_error_mean"] <= 0.003
    (layout,) = run.diagnosis.layouts.to_dict("records")
    assert (layout["dp"], layout["pp"], layout["micro_batches"]) == (replicas, 4, 8)
    assert layout["confidence"] <= 0.8


@pytest.mark.parametrize(
    "fields", [{"dp": 8, "micro_batches": 4}, {"dp": 4, "zero_stage": 3, "micro_batches": 2}]
)
def test_two_steps_without_a_pipeline_have_none(scored, fields):
    run = scored(scenario(**fields, steps=2))
    assert run.score["jobs"]["accuracy"] == 1
    assert run.diagnosis.steps.empty


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_one_step_shows_the_job_and_its_pipelines(scored, schedule):
    """All forward passes of ``gpipe`` end before any backward pass, and those before gradients."""
    fields = {"dp": 4, "pp": 4, "micro_batches": 8, "steps": 1, "schedule": schedule}
    run = scored(scenario(**fields))
    assert run.score["jobs"]["accuracy"] == 1
    assert run.diagnosis.steps.empty
    both = run.truth("pairs").merge(run.diagnosis.pairs, on=["src", "dst"], suffixes=("_true", ""))
    assert (both["kind"] == both["kind_true"]).all()
    (layout,) = run.diagnosis.layouts.to_dict("records")
    assert (layout["dp"], layout["pp"], layout["micro_batches"]) == (4, 4, -1)
    assert run.score["parallelism"]["groups_exact"] == 1


def test_rings_that_move_in_the_first_forward_pass_are_no_gradients(scored):
    """Context parallelism passes keys and values round a ring; with one replica nothing reduces."""
    run = scored(scenario(dp=1, cp=4, pp=4, micro_batches=8, steps=1))
    kinds = run.diagnosis.pairs["kind"]
    assert "dp" not in set(kinds)
    assert (kinds == "pp").sum() == 2 * 4 * 3
    assert run.diagnosis.layouts["dp"].tolist() == [-1]
