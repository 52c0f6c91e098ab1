"""Findings on real traffic, with deliberate faults and without faults."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from llmprism.pipeline import diagnose_files

CAPTURES = Path(__file__).parents[4] / "fixtures" / "captures"
HEALTHY = [
    (case, flows.name)
    for case in ("a2_ddp4", "b_dp4pp2", "c_two_jobs")
    for flows in sorted((CAPTURES / case).glob("flows*.parquet"))
]


def findings_of(case, flows="flows.parquet"):
    folder = CAPTURES / case
    return diagnose_files(folder / flows, folder / "topology.json", method="prism").findings


@pytest.fixture(scope="module", params=["flows.parquet", "flows_gap2ms.parquet"])
def of_two_faults(request):
    return findings_of("d_fault_rank_link", request.param)


def test_each_of_two_real_faults_is_found_once(of_two_faults):
    assert list(of_two_faults["cause"]) == ["slow_gpu", "slow_nic"]
    assert list(of_two_faults["finding"]) == [0, 1]


def test_a_slow_rank_is_named_and_not_the_stage_that_waits_for_it(of_two_faults):
    slow = of_two_faults.iloc[0]
    assert slow["culprit"] == "10.77.3.17"  # rank 2
    assert slow["first_step"] in (11, 12)
    assert slow["last_step"] == 19
    assert 0.3 < slow["magnitude"] < 0.8  # computing is 4 times slower, the rest of a pass is not


def test_a_slow_host_link_is_named_by_its_address(of_two_faults):
    slow = of_two_faults.iloc[1]
    assert slow["culprit"] == "10.77.3.16"  # rank 5
    assert (slow["first_step"], slow["last_step"]) == (28, 37)
    assert slow["magnitude"] == pytest.approx(1 - 60 / 300, abs=0.1)


@pytest.mark.parametrize(("case", "flows"), HEALTHY, ids=["-".join(one) for one in HEALTHY])
def test_nothing_is_found_in_healthy_captures(case, flows):
    assert findings_of(case, flows).empty


LAB = CAPTURES.parent / "lab"
FAULTS = {
    "ddp8-pause": ("slow_compute", "10.0.0.1"),
    "ddp8-slow-rank": ("slow_gpu", "10.0.7.1"),
    "dp2pp4-slow-spine": ("slow_switch", "spine01"),
    "dp4pp2-slow-nic": ("slow_nic", "10.0.6.1"),
    "dp4pp2-slow-rank": ("slow_gpu", "10.0.6.1"),
    "fsdp4-slow-nic": ("slow_nic", "10.0.0.1"),
    "mpi-ring8-slow-link": ("slow_link", "leaf001|spine00"),
    "mpi-dp4pp2-slow-rank": ("slow_gpu", "10.0.5.1"),
    "short": ("slow_gpu", "10.0.3.1"),
}


HEALTHY_LAB = (
    "ddp4", "ddp4-noise", "dp2pp4", "dp4pp2", "dp4pp4", "fsdp4", "mpi-doubling8", "mpi-dp2pp4",
    "mpi-rabenseifner8", "mpi-ring8", "tp4dp2", "two-tenants",
)  # fmt: skip


TABLES = (
    "flows",
    pytest.param("flows_gap1ms", marks=pytest.mark.slow),
    pytest.param("flows_gap2ms", marks=pytest.mark.slow),
    pytest.param("flows_gap10ms", marks=pytest.mark.slow),
)
FALSE: set[tuple[str, str]] = set()
"""Healthy cases of which a stretch that really is slower has a finding in these records."""

UNNAMED = {
    ("mpi-dp4pp2-slow-rank", "flows_gap1ms"), ("short", "flows_gap1ms"),
    ("fsdp4-slow-nic", "flows_gap1ms"),
}  # fmt: skip
"""Faults that are found in these records, with another culprit, or none: TCP cuts transfers up."""


@pytest.mark.parametrize("flows", TABLES)
@pytest.mark.parametrize("case", HEALTHY_LAB)
def test_nothing_is_found_in_healthy_cases_of_the_lab(case, flows):
    """Two cores serve all ranks: now and then all of them take longer, some more than others."""
    folder = LAB / case
    found = diagnose_files(folder / f"{flows}.parquet", folder / "topology.json", method="prism")
    assert found.findings.empty == ((case, flows) not in FALSE)


@pytest.mark.parametrize("flows", TABLES)
@pytest.mark.parametrize(("case", "expected"), FAULTS.items(), ids=list(FAULTS))
def test_the_culprit_of_each_fault_in_the_lab_is_named(case, expected, flows):
    folder = LAB / case
    found = diagnose_files(
        folder / f"{flows}.parquet", folder / "topology.json", method="prism"
    ).findings
    assert len(found) == 1
    named = [tuple(one) for one in found[["cause", "culprit"]].to_numpy()]
    assert (named == [expected]) == ((case, flows) not in UNNAMED)


def test_one_pause_as_long_as_a_step_is_named(tmp_path):
    """The first 13 steps hold the first pause only."""
    folder = LAB / "ddp8-pause"
    steps = pd.read_parquet(folder / "truth" / "steps.parquet")
    flows = pd.read_parquet(folder / "flows.parquet")
    until_ns = steps.loc[steps["step"] == 13, "start_ns"].min()
    flows[flows["start_ns"] < until_ns].to_parquet(tmp_path / "flows.parquet")
    found = diagnose_files(tmp_path / "flows.parquet", folder / "topology.json").findings
    pause = found[["cause", "culprit", "first_step", "last_step"]].to_numpy().tolist()
    assert pause == [["slow_compute", "10.0.0.1", 9, 9]]


def test_of_two_partners_that_look_slow_the_other_is_named_too():
    folder = LAB / "mpi-dp4pp2-slow-rank"
    found = diagnose_files(folder / "flows.parquet", folder / "topology.json", method="prism")
    named = json.loads(found.findings["evidence"].iloc[0])["one_of"]
    assert named == ["10.0.5.1", "10.0.3.1"]
