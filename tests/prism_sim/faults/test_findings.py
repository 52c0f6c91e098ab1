"""Findings of the diagnosis about the bundled faults: the right culprit, and the right cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faulty import assert_named, diagnosed
from prism_sim.toolkit import load_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios" / "faults"
FOUND = [
    "crash", "gc-pauses", "hang", "incast-burst", "intermittent-gpu",
    "job-congestion", "length-imbalance", "loader-stalls", "lossy-link", "misconfigured-switch",
    "polarised-hashing", "slow-server",
    "slow-storage", "stopped-nic", "thermal-ramp", "uneven-stage",
]  # fmt: skip


def found_in(folder, scenario, **overrides):
    changes = {"measure_faults": False, **overrides}
    return diagnosed(folder, load_scenario(SCENARIOS / f"{scenario}.yaml", changes))


@pytest.mark.parametrize("scenario", FOUND)
def test_the_culprit_and_the_cause_are_named(tmp_path, scenario):
    assert_named(found_in(tmp_path, scenario, seed=77))


@pytest.mark.parametrize("seed", [78, 79])
def test_unequal_gpus_and_long_passes_are_no_findings(tmp_path, seed):
    assert found_in(tmp_path, "healthy-spread", seed=seed).diagnosis["findings"].empty


@pytest.mark.parametrize("scenario", ["hang", "crash"])
def test_a_rank_that_stops_is_named_with_its_last_moment(tmp_path, scenario):
    case = found_in(tmp_path, scenario, seed=80)
    fault, findings = case.truth["faults"].iloc[0], case.diagnosis["findings"]
    finding = findings[findings["symptom"] == "stopped"].iloc[0]
    assert finding["culprit"] == fault["culprit"]
    assert abs(finding["start_ns"] - fault["start_ns"]) < 10e9
    assert {"hang", "crash"} <= {finding["cause"], *json.loads(finding["evidence"])["or_causes"]}


def test_a_server_that_pauses_in_most_steps_is_named(tmp_path):
    fault = {
        "kind": "gc_pauses", "server": "s0005", "pause_ms": 30, "every_s": 0.15, "job": "train",
        "from_step": 7,
    }  # fmt: skip
    case = found_in(tmp_path, "gc-pauses", seed=77, faults=[fault])
    assert_named(case, alone=False, with_cause=False)


@pytest.mark.parametrize(("every_s", "lasts_s"), [(0.1, 0.02), (0.15, 0.03)])
def test_a_nic_is_named_where_single_messages_stall_and_all_others_are_fast(
    tmp_path, every_s, lasts_s
):
    fault = {
        "kind": "flapping_nic", "server": "s0001", "nic": 0, "every_s": every_s,
        "lasts_s": lasts_s, "job": "train", "from_step": 8, "to_step": 16,
    }  # fmt: skip
    assert_named(found_in(tmp_path, "flapping-nic", seed=77, faults=[fault]))


def test_both_ends_are_named_where_two_nics_have_traffic_with_each_other_only(tmp_path):
    two = {"servers": 2, "gpus_per_server": 4, "nics_per_server": 4}
    job = {"name": "train", "dp": 8, "steps": 24, "micro_batches": 2, "compute_jitter": 0.01}
    job["model"] = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 32000,
                    "sequence_length": 2048}  # fmt: skip
    fault = {"kind": "slow_nic", "server": "s0001", "nic": 2, "factor": 0.3, "job": "train"}
    fault |= {"from_step": 8, "to_step": 16}
    case = found_in(tmp_path, "flapping-nic", cluster=two, jobs=[job], faults=[fault])
    (finding,) = [one for _, one in case.diagnosis["findings"].iterrows()]
    assert finding["culprit"] in json.loads(finding["evidence"])["one_of"]
    assert {*json.loads(finding["evidence"])["one_of"][:2]} == {"10.0.0.3", "10.0.1.3"}


CONFUSED = [
    ("slow-server", "slow_server", "slow_gpu"),
    ("degraded-nvlink", "slow_server", "degraded_nvlink"),
    ("slow-storage", "slow_storage", "slow_nic"),
    ("flapping-nic", "flapping_nic", "slow_link"),
    ("hang", "hang", "crash"),
    ("hang", "hang", "stopped_nic"),
    ("gc-pauses", "slow_compute", "gc_pauses"),
    ("gc-pauses", "slow_compute", "loader_stalls"),
    ("gc-pauses", "slow_compute", "intermittent_gpu"),
    ("job-congestion", "job_congestion", "polarised_hashing"),
    ("polarised-hashing", "polarised_hashing", "job_congestion"),
]


@pytest.mark.parametrize(("scenario", "cause", "other"), CONFUSED)
def test_of_causes_that_flows_cannot_distinguish_both_are_named(tmp_path, scenario, cause, other):
    finding = found_in(tmp_path, scenario, seed=81).diagnosis["findings"].iloc[0]
    assert finding["cause"] == cause
    assert other in json.loads(finding["evidence"])["or_causes"]


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "slow_switch", "switch": "spine00"},
        {"kind": "slow_link", "a": "leaf000", "b": "spine00"},
    ],
)
def test_a_switch_and_its_links_are_named_where_all_slow_transfers_cross_them(tmp_path, fault):
    four = {"servers": 4, "gpus_per_server": 2, "nics_per_server": 2}
    four["fabric"] = {"kind": "tor", "leaf_ports": 4, "spines": 1}
    job = {"name": "train", "dp": 8, "steps": 24, "micro_batches": 2, "compute_jitter": 0.01}
    job["model"] = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 32000,
                    "sequence_length": 2048}  # fmt: skip
    slow = fault | {"factor": 0.3, "job": "train", "from_step": 8, "to_step": 16}
    case = found_in(tmp_path, "flapping-nic", cluster=four, jobs=[job], faults=[slow])
    (finding,) = [one for _, one in case.diagnosis["findings"].iterrows()]
    named = {*json.loads(finding["evidence"])["one_of"]}
    assert {"spine00", "leaf000|spine00", "leaf001|spine00"} <= named
