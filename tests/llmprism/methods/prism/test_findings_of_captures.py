"""Real faults in real traffic: the graph of a step names them, however exporters cut records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmprism.pipeline import diagnose

FIXTURES = Path(__file__).parents[3] / "fixtures"
FAULTS = {
    "lab/ddp8-slow-rank": "10.0.7.1",
    "lab/dp2pp4-slow-spine": "spine01",
    "lab/dp4pp2-slow-nic": "10.0.6.1",
    "lab/dp4pp2-slow-rank": "10.0.6.1",
    "lab/fsdp4-slow-nic": "10.0.0.1",
    "lab/mpi-ring8-slow-link": "leaf001|spine00",
    "lab/mpi-dp4pp2-slow-rank": "10.0.5.1",
    "lab/short": "10.0.3.1",
    "captures/d_fault_rank_link": "10.77.3.17",
}
TABLES = (
    "flows",
    pytest.param("flows_gap1ms", marks=pytest.mark.slow),
    pytest.param("flows_gap2ms", marks=pytest.mark.slow),
    pytest.param("flows_gap10ms", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("flows", TABLES)
@pytest.mark.parametrize(("case", "culprit"), FAULTS.items(), ids=list(FAULTS))
def test_the_culprit_is_among_those_named(case: str, culprit: str, flows: str) -> None:
    records = FIXTURES / case / f"{flows}.parquet"
    if not records.exists():
        records = FIXTURES / case / "flows.parquet"
    found = diagnose(records, FIXTURES / case / "topology.json", method="prism").findings
    evidence = [json.loads(text) for text in found["evidence"]]
    named = {*found["culprit"], *(name for one in evidence for name in one.get("one_of", ()))}
    assert culprit in named


@pytest.mark.parametrize("case", ["dp4pp2-slow-rank", "mpi-dp4pp2-slow-rank", "short"])
def test_a_rank_is_named_before_the_one_that_it_exchanges_messages_with(case: str) -> None:
    folder = FIXTURES / "lab" / case
    found = diagnose(folder / "flows.parquet", folder / "topology.json", method="prism")
    slow = found.findings[found.findings["cause"] == "slow_gpu"]
    assert slow["culprit"].tolist() == [FAULTS[f"lab/{case}"]]
    assert len(json.loads(slow["evidence"].iloc[0]).get("one_of", [])) in (0, 2)
