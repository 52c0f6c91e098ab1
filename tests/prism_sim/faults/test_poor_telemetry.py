"""Findings from records that are merged, lost, or rounded: the culprit is still named."""

from __future__ import annotations

import json

import pytest

from faulty import assert_named, diagnosed

HEADERS = {"kind": "headers"}
MERGED = {"idle_gap_us": 5000, "message_boundary": False, "effects": [HEADERS]}
LOSSY = {
    "idle_gap_us": 2000,
    "message_boundary": False,
    "effects": [HEADERS, {"kind": "loss", "probability": 0.02}],
}
MILLISECONDS = {
    "message_boundary": False,
    "effects": [HEADERS, {"kind": "granularity", "unit_ns": 1_000_000}],
}
MODEL = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}
JOB = {
    "name": "train", "model": MODEL, "steps": 24, "mfu": 0.45, "compute_jitter": 0.01,
    "step_overhead_ms": 5, "zero_stage": 1,
}  # fmt: skip
WIDE = {"gpus_per_server": 4, "nics_per_server": 4}
NARROW = {"gpus_per_server": 1, "nics_per_server": 1}


def found_in(folder, telemetry, fault, job, servers=8, **cluster):
    gpus = {"gpus_per_server": 2, "nics_per_server": 2} | cluster
    ports = 4 * gpus["nics_per_server"]
    world = {
        "name": "poor",
        "seed": 81,
        "cluster": {
            "servers": servers,
            "fabric": {"kind": "tor", "leaf_ports": ports, "spines": 2},
            **gpus,
        },
        "jobs": [JOB | job],
        "collector": telemetry,
        "faults": [{"job": "train", "from_step": 8} | fault],
    }
    return diagnosed(folder, world)


@pytest.mark.parametrize("telemetry", [MERGED, LOSSY], ids=["merged", "lossy"])
def test_a_rank_that_stops_in_a_deep_pipeline_is_named(tmp_path, telemetry):
    """Its records hold several messages, and in some steps one of them is lost."""
    fault = {"kind": "hang", "rank": 8, "noticed_after_s": 20}
    job = {"dp": 4, "pp": 4, "micro_batches": 6}
    assert_named(found_in(tmp_path, telemetry, fault, job))


def test_a_slow_rank_is_named_where_all_messages_of_a_step_are_one_record(tmp_path):
    fault = {"kind": "slow_gpu", "rank": 9, "factor": 0.6, "to_step": 16}
    job = {"dp": 4, "pp": 4, "micro_batches": 6, "schedule": "gpipe"}
    assert_named(found_in(tmp_path, MERGED, fault, job))


def test_an_uneven_stage_is_named_where_all_messages_of_a_step_are_one_record(tmp_path):
    fault = {"kind": "uneven_stage", "stage": 2, "factor": 0.7, "to_step": 16}
    assert_named(found_in(tmp_path, MERGED, fault, {"dp": 4, "pp": 4, "micro_batches": 8}))


def test_a_leaf_that_sends_slowly_to_its_nics_is_named(tmp_path):
    fault = {"kind": "misconfigured_switch", "switch": "leaf001", "direction": "down"}
    fault |= {"factor": 0.15, "to_step": 16}
    job = {"dp": 8, "pp": 4, "micro_batches": 6}
    assert_named(found_in(tmp_path, LOSSY, fault, job, servers=16))


def test_the_slow_nic_is_named_where_only_the_end_of_its_ring_shows_it(tmp_path):
    fault = {"kind": "slow_nic", "server": "s0001", "nic": 2, "factor": 0.15, "to_step": 16}
    case = found_in(tmp_path, MERGED, fault, {"dp": 8, "tp": 2, "micro_batches": 2}, 4, **WIDE)
    assert_named(case)


def test_a_nic_that_pauses_is_named_though_the_others_of_its_ring_rest_for_it(tmp_path):
    fault = {"kind": "flapping_nic", "server": "s0001", "nic": 0, "every_s": 0.4, "lasts_s": 0.1}
    telemetry = {"idle_gap_us": 5000, "message_boundary": False}
    case = found_in(tmp_path, telemetry, fault, {"dp": 8, "micro_batches": 2}, servers=4)
    assert_named(case, alone=False, with_cause=False)


def test_of_ranks_that_stop_before_any_collective_of_a_step_none_is_accused(tmp_path):
    """In a ring of two the one that waits sends as little as the one that stopped."""
    fault = {"kind": "hang", "rank": 1, "noticed_after_s": 20, "down_s": 10}
    one = {"gpus_per_server": 1, "nics_per_server": 1}
    case = found_in(tmp_path, MERGED, fault, {"dp": 2, "micro_batches": 2}, 2, **one)
    (finding,) = case.diagnosis["findings"].to_dict("records")
    assert (finding["culprit_kind"], finding["cause"]) == ("job", "hang")
    assert {"crash", "stopped_nic"} <= {*json.loads(finding["evidence"])["or_causes"]}


def test_a_late_rank_of_a_ring_is_named_where_its_neighbours_send_too_little_to_be_seen(tmp_path):
    """Behind it a hop sends a chunk or two, and waits: no data, beside a record of all others."""
    telemetry = MERGED | {"idle_gap_us": 2000}
    fault = {"kind": "slow_gpu", "rank": 6, "factor": 0.85, "to_step": 16}
    job = {"dp": 16, "micro_batches": 4}
    case = found_in(tmp_path, telemetry, fault, job, servers=16, **NARROW)
    assert case.diagnosis["findings"]["culprit"].tolist() == ["10.0.6.1"]


@pytest.mark.parametrize("fault", [{"kind": "uneven_stage", "stage": 0},
                                   {"kind": "slow_gpu", "rank": 3}])  # fmt: skip
def test_what_is_slow_in_all_steps_but_the_first_is_named(tmp_path, fault):
    fault |= {"factor": 0.7, "from_step": 5}
    job = {"dp": 4, "pp": 2, "micro_batches": 8}
    assert_named(found_in(tmp_path, {}, fault, job, **NARROW))


def test_a_late_rank_of_a_ring_is_named_where_the_ring_waits_for_it_in_most_steps(tmp_path):
    """The others show how long the ring waits in quiet steps, whether or not for whom."""
    fault = {"kind": "slow_gpu", "rank": 4, "factor": 0.88, "from_step": 6, "to_step": 20}
    job = {"dp": 16, "micro_batches": 4, "compute_jitter": 0.02}
    assert_named(found_in(tmp_path, {}, fault, job))


def test_a_rank_of_a_pipeline_that_waits_for_data_is_named_where_records_hold_several_messages(
    tmp_path,
):
    """Its first pass of a step is long; that of its partner has to wait, and nothing else."""
    fault = {"kind": "loader_stalls", "rank": 21, "stall_ms": 16, "every": 1, "to_step": 17}
    job = {"dp": 8, "pp": 4, "micro_batches": 6, "compute_jitter": 0.005}
    case = found_in(tmp_path, MERGED, fault, job, **WIDE)
    assert_named(case)
    assert len(case.diagnosis["findings"]) == 1


def test_nobody_is_accused_where_few_records_hold_a_single_message(tmp_path):
    """They hide most of what a stage works longer, so what steps are longer by has no name."""
    fault = {"kind": "uneven_stage", "stage": 1, "factor": 0.62, "to_step": 15}
    job = {"dp": 4, "pp": 2, "tp": 4, "micro_batches": 12, "step_overhead_ms": 15}
    (finding,) = (
        found_in(tmp_path, MERGED, fault, job, **WIDE).diagnosis["findings"].to_dict("records")
    )
    assert (finding["culprit_kind"], finding["cause"]) == ("job", "unknown")
    assert (finding["first_step"], finding["last_step"]) == (8, 14)


def test_of_two_ranks_that_exchange_gradients_with_each_other_alone_none_is_accused(tmp_path):
    """Each transfer begins when both are there, so nothing shows for whom it waited."""
    fault = {"kind": "slow_gpu", "rank": 1, "factor": 0.6, "to_step": 16}
    case = found_in(tmp_path, {}, fault, {"dp": 2, "micro_batches": 4}, 2, **NARROW)
    (finding,) = case.diagnosis["findings"].to_dict("records")
    assert (finding["culprit_kind"], finding["symptom"]) == ("job", "slow_steps")
    assert (finding["cause"], finding["first_step"], finding["last_step"]) == ("unknown", 8, 15)


@pytest.mark.parametrize("telemetry", [MERGED, LOSSY], ids=["merged", "lossy"])
def test_the_slow_nic_of_a_ring_is_named_where_every_hop_is_one_record(tmp_path, telemetry):
    """All hops are as long as the slow one, as no record shows how they wait for it."""
    fault = {"kind": "slow_nic", "server": "s0001", "nic": 2, "factor": 0.4, "to_step": 16}
    job = {"dp": 12, "pp": 1, "micro_batches": 2}
    assert_named(found_in(tmp_path, telemetry, fault, job, **WIDE))


@pytest.mark.parametrize(
    "telemetry", [MERGED, LOSSY, MILLISECONDS], ids=["merged", "lossy", "milliseconds"]
)
def test_a_nic_that_receives_bursts_of_other_traffic_is_named(tmp_path, telemetry):
    """All hops of the ring wait for the burst, but only one NIC has it."""
    fault = {
        "kind": "incast_burst", "server": "s0002", "nic": 0, "senders": 5, "to_step": 16,
        "burst_bytes": 40_000_000, "every_s": 0.03,
    }  # fmt: skip
    found = found_in(tmp_path, telemetry, fault, {"dp": 16, "pp": 1, "micro_batches": 2})
    assert_named(found)
    assert set(found.diagnosis["findings"]["cause"]) == {"incast_burst"}


def test_a_nic_is_not_slow_for_sending_a_checkpoint(tmp_path):
    """Its collectives share it with each checkpoint, and steps differ too much to show that."""
    world = {
        "seed": 22316,
        "cluster": {"servers": 4, "fabric": {"kind": "tor", "leaf_ports": 32, "spines": 2}, **WIDE},
        "jobs": [
            JOB
            | {"dp": 8, "micro_batches": 2, "zero_stage": 0, "steps": 28, "mfu": 0.494}
            | {"step_overhead_ms": 15, "step_overhead_jitter": 0.2, "server_jitter": 0.01}
            | {"checkpoint": {"every": 5, "mode": "async"}}
        ],
        "storage": ["s0003"],
    }
    assert diagnosed(tmp_path, world).diagnosis["findings"].empty
