"""A late rank whose server has other ranks of the same ring: which of them it is."""

from __future__ import annotations

import json

import pytest

from llmprism.pipeline import diagnose
from prism_sim.toolkit import Run, Scenario, load_tables, score_faults, simulate

MODEL = {"layers": 4, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}
ROUNDED = {
    "message_boundary": False,
    "effects": [{"kind": "granularity", "unit_ns": 1_000_000}],
}


def found_in(folder, faults, gpus, telemetry=None, **job):
    world = {
        "name": "shared",
        "seed": 83,
        "cluster": {
            "servers": 4,
            "gpus_per_server": gpus,
            "nics_per_server": gpus,
            "fabric": {"kind": "tor", "leaf_ports": 4 * gpus, "spines": 2},
        },
        "jobs": [
            {
                "name": "train", "model": MODEL, "dp": 4 * gpus, "micro_batches": 2, "steps": 20,
                "mfu": 0.4, "compute_jitter": 0.01, "step_overhead_ms": 5, "zero_stage": 1,
                "placement": {"servers": ["s0002", "s0000", "s0003", "s0001"]}, **job,
            }
        ],
        "collector": telemetry or {},
        "faults": [{"job": "train", "from_step": 8} | fault for fault in faults],
    }  # fmt: skip
    run = Run(folder)
    simulate(Scenario.model_validate(world), run)
    diagnose(run.flows, run.topology, method="prism").write(run.diagnosis_folder)
    return load_tables(run)


@pytest.mark.parametrize("telemetry", [{}, ROUNDED], ids=["exact", "milliseconds"])
@pytest.mark.parametrize(("gpus", "rank"), [(2, 2), (2, 5), (4, 0), (4, 5), (4, 14), (4, 11)])
def test_the_late_rank_of_a_server_is_named(tmp_path, gpus, rank, telemetry):
    fault = {"kind": "slow_gpu", "rank": rank, "factor": 0.6, "to_step": 16}
    score = score_faults(found_in(tmp_path, [fault], gpus, telemetry))
    assert [match.localized for match in score.matches] == [True]
    assert [match.cause_right for match in score.matches] == [True]
    assert score.false_alarms == 0


@pytest.mark.parametrize("gpus", [2, 4])
def test_a_server_all_of_whose_ranks_are_late_is_named(tmp_path, gpus):
    fault = {"kind": "slow_server", "server": "s0003", "factor": 0.7, "to_step": 16}
    score = score_faults(found_in(tmp_path, [fault], gpus))
    assert [match.localized for match in score.matches] == [True]
    assert score.false_alarms == 0


@pytest.mark.parametrize("gpus", [2, 4])
def test_a_late_server_is_named_where_parameters_are_gathered_layer_by_layer(tmp_path, gpus):
    """Each gather waits for it, and between the steps it is no later than others."""
    fault = {"kind": "slow_server", "server": "s0003", "factor": 0.7, "to_step": 16}
    score = score_faults(found_in(tmp_path, [fault], gpus, zero_stage=3))
    assert [match.localized for match in score.matches] == [True]
    assert score.false_alarms == 0


@pytest.mark.parametrize("rank", [4, 7, 8, 11])
def test_the_first_or_last_rank_of_a_server_is_late_to_gathers_or_the_one_beside_it(tmp_path, rank):
    fault = {"kind": "slow_gpu", "rank": rank, "factor": 0.7, "to_step": 16}
    case = found_in(tmp_path, [fault], 4, zero_stage=3)
    findings = case.diagnosis["findings"]
    assert list(findings["cause"]) == ["slow_gpu"]
    address = case.truth["ranks"].set_index("rank").loc[rank, "address"]
    assert address in json.loads(findings.iloc[0]["evidence"])["one_of"][:3]


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_jitter_of_ranks_that_share_servers_is_no_finding(tmp_path, tp):
    """They wait for one after the other, now and then for one twice."""
    sizes = {"tp": tp, "dp": 16 // tp}
    jitter = {"compute_jitter": 0.02, "step_overhead_ms": 15, "step_overhead_jitter": 0.3}
    assert found_in(tmp_path, [], 4, **sizes, **jitter).diagnosis["findings"].empty


def test_a_step_in_which_a_transfer_waits_for_its_partner_is_not_finished(tmp_path):
    """The transfer ends when the job restarts, and then no bytes of the step lack."""
    fault = {
        "kind": "stopped_nic", "server": "s0003", "nic": 1, "noticed_after_s": 20, "down_s": 10,
    }  # fmt: skip
    score = score_faults(found_in(tmp_path, [fault], 4))
    assert [match.localized for match in score.matches] == [True]
    assert score.false_alarms == 0


@pytest.mark.parametrize("kind", ["hang", "crash"])
def test_a_rank_that_stops_is_named_where_no_exchange_of_gradients_is_seen(tmp_path, kind):
    """All replicas of a stage are in one server."""
    fault = {"kind": kind, "rank": 9, "noticed_after_s": 20}
    fault |= {"into_step_s": 0.02} if kind == "crash" else {}
    score = score_faults(found_in(tmp_path, [fault], 4, dp=4, pp=4, micro_batches=8))
    assert [match.localized for match in score.matches] == [True]
    assert score.false_alarms == 0


@pytest.mark.parametrize("rank", range(8))
def test_a_late_rank_of_two_servers_is_named_or_the_one_before_it(tmp_path, rank):
    """One hop from the last rank of a server to the first one of the other is all that is left."""
    fault = {"kind": "slow_gpu", "rank": rank, "factor": 0.6, "to_step": 16}
    case = found_in(tmp_path, [fault], 4, dp=8, placement={"servers": ["s0002", "s0000"]})
    findings = case.diagnosis["findings"]
    assert list(findings["cause"]) == ["slow_gpu"]
    named = json.loads(findings.iloc[0]["evidence"]).get("one_of", [findings.iloc[0]["culprit"]])
    address = case.truth["ranks"].set_index("rank").loc[rank, "address"]
    assert address in named
    on_either_side = rank % 4 in (0, 3)
    assert len(named) == (2 if on_either_side else 1)


def gathering_and_pausing(folder, every_s):
    """Parameters are gathered for most of a step, so a pause seldom comes before that."""
    fault = {
        "kind": "gc_pauses", "server": "s0000", "pause_ms": 18, "every_s": every_s, "to_step": 16,
    }  # fmt: skip
    gathering = {
        "zero_stage": 3,
        "mfu": 0.44,
        "step_overhead_ms": 15,
        "model": MODEL | {"layers": 8},
    }
    return score_faults(found_in(folder, [fault], 2, **gathering))


@pytest.mark.parametrize("every_s", [0.09, 0.124])
def test_a_server_that_pauses_in_the_middle_of_collectives_is_named(tmp_path, every_s):
    score = gathering_and_pausing(tmp_path, every_s)
    assert [match.localized for match in score.matches] == [True]


SECOND = pytest.mark.xfail(reason="a second finding names a server that waits for the first")


@pytest.mark.parametrize("every_s", [0.09, pytest.param(0.124, marks=SECOND)])
def test_only_the_server_that_pauses_in_the_middle_of_collectives_is_named(tmp_path, every_s):
    assert gathering_and_pausing(tmp_path, every_s).false_alarms == 0
