"""Ranks that stop: the one that stopped first is named, and jobs that end are not accused."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, simulate

MODEL = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}
JOB = {"name": "train", "model": MODEL, "steps": 16, "micro_batches": 2, "compute_jitter": 0.01}
STOP = {"job": "train", "from_step": 10, "noticed_after_s": 20, "down_s": 10}
LOSSY = {
    "idle_gap_us": 2000, "message_boundary": False,
    "effects": [{"kind": "headers"}, {"kind": "loss", "probability": 0.05}],
}  # fmt: skip
MERGED = {"idle_gap_us": 5000, "message_boundary": False}
SAMPLED = {
    "idle_gap_us": 5000, "message_boundary": False,
    "effects": [{"kind": "headers"}, {"kind": "sampling", "one_in": 100}],
}  # fmt: skip


def simulated(folder, job, fault=None, telemetry=None, servers=4, nics=2, seed=0, other=None):
    world = {
        "seed": seed,
        "cluster": {"servers": servers, "gpus_per_server": nics, "nics_per_server": nics},
        "jobs": [JOB | job, *([JOB | other] if other else [])],
        "faults": [STOP | fault] if fault else [],
        "collector": telemetry or {},
    }
    run = Run(folder)
    simulate(Scenario.model_validate(world), run)
    return run


def stops_in(flows, run):
    findings = diagnose(flows, run.topology, method="prism").findings
    return findings[findings["symptom"] == "stopped"].to_dict("records")


SEVERAL = ({"dp": 8}, "hang", {})
"""The hops between servers show how many ranks of its server follow it."""
FOUR_EACH = ({"dp": 8}, "hang", {"servers": 2, "nics": 4})
"""Each hop between the servers sends chunks of several of these ranks."""
OF_SAMPLES = ({"dp": 8}, "crash", {"telemetry": SAMPLED, "servers": 8, "nics": 1})
REPLICA = ({"dp": 4, "pp": 2, "micro_batches": 6}, "hang", {"servers": 8, "nics": 1})
"""All stages of its replica lack in their rings; its own pipeline shows which one stopped."""


@pytest.mark.parametrize(("world", "rank"), [
    *((SEVERAL, rank) for rank in range(8)), *((FOUR_EACH, rank) for rank in (1, 2, 5, 6)),
    *((OF_SAMPLES, rank) for rank in (1, 6)), *((REPLICA, rank) for rank in (2, 5)),
])  # fmt: skip
def test_the_rank_that_stopped_is_named(tmp_path, world, rank):
    job, kind, how = world
    run = simulated(tmp_path, job, {"kind": kind, "rank": rank}, **how)
    (stop,) = stops_in(run.flows, run)
    assert stop["culprit"] == run.truth("faults")["culprit"][0]


@pytest.mark.parametrize("nic", [0, 1])
def test_a_silent_nic_is_named_with_its_cause(tmp_path, nic):
    """The rings through the other NICs of its server finish the collective."""
    fault = {"kind": "stopped_nic", "server": "s0002", "nic": nic}
    run = simulated(tmp_path, {"dp": 8}, fault)
    (stop,) = stops_in(run.flows, run)
    assert (stop["culprit"], stop["cause"]) == (f"10.0.2.{nic + 1}", "stopped_nic")


@pytest.mark.parametrize("rank", range(8))
def test_the_rank_is_named_where_messages_have_no_record(tmp_path, rank):
    """Or the rank that it exchanged messages with, of which records are missing as well."""
    job = {"dp": 4, "pp": 2, "micro_batches": 8}
    fault = {"kind": "crash", "rank": rank, "into_step_s": 0.04}
    run = simulated(tmp_path, job, fault, LOSSY, servers=8, nics=1)
    (stop,) = stops_in(run.flows, run)
    named = json.loads(stop["evidence"])["one_of"]
    assert run.truth("faults")["culprit"][0] in named[:2]


def test_half_of_the_replicas_may_stop_with_a_rank(tmp_path):
    """Of two replicas one stops; its tensor-parallel ranks are two of four pipelines."""
    job = {"dp": 2, "pp": 2, "tp": 2, "micro_batches": 6}
    run = simulated(tmp_path, job, {"kind": "hang", "rank": 4}, nics=2)
    (stop,) = stops_in(run.flows, run)
    one_of = json.loads(stop["evidence"])["one_of"]
    assert run.truth("faults")["culprit"][0] in one_of[:3]


def test_sender_and_receiver_are_named_where_a_message_has_no_record(tmp_path):
    """A first stage that stops, and a silent NIC of the second, look the same."""
    job = {"dp": 4, "pp": 2, "micro_batches": 6}
    for fault in ({"kind": "hang", "rank": 1}, {"kind": "stopped_nic", "rank": 5}):
        run = simulated(tmp_path / fault["kind"], job, fault | {"down_s": None}, None, 8, 1)
        (stop,) = stops_in(run.flows, run)
        evidence = json.loads(stop["evidence"])
        assert {*evidence["one_of"]} == {"10.0.1.1", "10.0.5.1"}
        assert {stop["cause"], *evidence["or_causes"]} == {"hang", "crash", "stopped_nic"}


@pytest.mark.parametrize("job", [{"dp": 8}, {"dp": 4, "pp": 2, "micro_batches": 6}])
def test_a_job_that_ends_or_is_cut_has_no_stop(tmp_path, job):
    """Records that end at any moment of the last steps, with those that last longer left out."""
    run = simulated(tmp_path / "run", job)
    flows = pd.read_parquet(run.flows)
    assert stops_in(run.flows, run) == []
    since_ns, end_ns = run.truth("steps").query("step >= 12")["start_ns"].min(), flows.end_ns.max()
    for part in range(12):
        until_ns = since_ns + (end_ns - since_ns) * part // 12
        cut = tmp_path / "cut.parquet"
        flows[flows["end_ns"] <= until_ns].to_parquet(cut)
        assert stops_in(cut, run) == []


@pytest.mark.parametrize(
    ("telemetry", "seed"), [*((SAMPLED, seed) for seed in range(4, 7)), (LOSSY, 0), (LOSSY, 1)]
)
def test_a_job_that_ends_has_no_stop_where_its_last_step_lacks_records(tmp_path, telemetry, seed):
    """A hop of two that sent less has lost records, and no rank is missing."""
    run = simulated(tmp_path, {"dp": 8, "zero_stage": 1}, None, telemetry, 2, 4, seed)
    assert stops_in(run.flows, run) == []


def test_attempts_are_apart_where_transfers_that_waited_end_with_the_next_one(tmp_path):
    """The NIC is back when the job is: what waited ends a little after the restart."""
    job = {"dp": 4, "pp": 4, "micro_batches": 6, "schedule": "zb-h1", "steps": 28}
    fault = {"kind": "stopped_nic", "server": "s0005", "nic": 0, "from_step": 13}
    run = simulated(tmp_path, job, fault, servers=16, nics=1)
    (stop,) = stops_in(run.flows, run)
    named = json.loads(stop["evidence"])["one_of"]
    assert run.truth("faults")["culprit"][0] in named


def test_a_job_that_never_reduces_its_gradients_stopped_while_others_go_on(tmp_path):
    """All messages of a step are one record, so no rank shows to be the first."""
    telemetry = MERGED | {"effects": [{"kind": "headers"}]}
    job = {
        "dp": 2, "pp": 4, "tp": 2, "micro_batches": 8, "schedule": "interleaved", "chunks": 2,
        "zero_stage": 1, "placement": {"servers": [f"s{i:04}" for i in range(8)]},
    }  # fmt: skip
    servers = {"servers": ["s0008", "s0009"]}
    other = {"name": "other", "dp": 2, "tp": 2, "steps": 60, "placement": servers}
    fault = {"kind": "crash", "rank": 0, "into_step_s": 0.0099, "from_step": 14}
    run = simulated(
        tmp_path, job | {"steps": 28}, fault | {"down_s": None}, telemetry, 10, 2, 0, other
    )
    (stop,) = stops_in(run.flows, run)
    assert {stop["cause"], *json.loads(stop["evidence"])["or_causes"]} >= {"hang", "crash"}


@pytest.mark.parametrize(
    "evaluation", [{"every": 16, "micro_batches": 6}, {"every": 5, "micro_batches": 12}]
)
def test_a_job_that_ends_with_an_evaluation_did_not_stop(tmp_path, evaluation):
    job = {"dp": 2, "pp": 4, "micro_batches": 8, "evaluation": evaluation}
    job |= {"placement": {"servers": [f"s{i:04}" for i in range(4)]}}
    other = {"name": "other", "dp": 4, "steps": 80, "placement": {"servers": ["s0004", "s0005"]}}
    run = simulated(tmp_path, job, None, None, 6, 2, 0, other)
    assert stops_in(run.flows, run) == []
