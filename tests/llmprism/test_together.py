"""Findings of several kinds of telemetry in one list: odds by hand, and worlds by commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import prism_sim as ps
from llmlog.cli import app as llmlog
from llmprism.cli import app
from llmprism.io.topology import parse_topology
from llmprism.pipeline import Diagnosis, empty_diagnosis
from llmprism.together import MISSES, together

SERVERS = 4
TOPOLOGY = parse_topology({
    "endpoints": [{"address": f"n{i}", "server": f"s{i}", "nic": 0, "gpus": [0], "switch": "leaf"}
                  for i in range(SERVERS)],
    "switches": [{"name": "leaf", "tier": "leaf"}],
    "links": [{"a": f"n{i}", "b": "leaf", "gbps": 100} for i in range(SERVERS)],
})  # fmt: skip
CHANCES = st.floats(0.05, 0.95)


@pytest.fixture(scope="module")
def nothing() -> Diagnosis:
    record = {"start_ns": 0, "end_ns": 9, "src": "n0", "dst": "n1", "bytes": 1}
    flows = pd.DataFrame([record | {"src_switch": "leaf", "dst_switch": "leaf"}])
    found = empty_diagnosis(flows, TOPOLOGY, "prism")
    jobs = pd.DataFrame({"job": "j", "address": [f"n{i}" for i in range(SERVERS)]})
    return replace(found, jobs=jobs)


def finding(culprit: str, confidence: float, **changed: Any) -> dict[str, Any]:
    row = {"finding": 0, "level": "rank", "symptom": "slow_passes", "cause": "slow_gpu", "job": "j",
           "culprit_kind": "address", "culprit": culprit, "first_step": 3, "last_step": 5,
           "start_ns": 300, "end_ns": 600, "magnitude": 0.2, "cost": 9.0}  # fmt: skip
    return row | {"confidence": confidence, "evidence": "{}"} | changed


def joined(nothing: Diagnosis, **kinds: dict[str, Any] | None) -> pd.DataFrame:
    """The findings of kinds that give one each, or see the job and give none."""
    each = {kind: nothing if row is None else replace(nothing, findings=pd.DataFrame([row]))
            for kind, row in kinds.items()}  # fmt: skip
    return together(each.pop("flows"), each, TOPOLOGY).findings


@given(CHANCES, CHANCES)
def test_two_kinds_that_name_one_place_are_surer_than_each(nothing, one, other) -> None:
    rows = joined(nothing, flows=finding("n1", one), collectives=finding("s1", other))
    assert rows["culprit"].tolist() in (["n1"], ["s1"])
    rest = (1 - one) * (1 - other) / SERVERS  # s0, s2, s3 and the network
    assert rows.loc[0, "confidence"] == pytest.approx(one * other / (one * other + rest))


@given(CHANCES, CHANCES)
def test_of_two_places_the_likelier_is_named_and_less_sure(nothing, one, other) -> None:
    rows = joined(nothing, flows=finding("n1", one), collectives=finding("n2", other))
    if abs(one - other) > 0.01:
        assert rows["culprit"].tolist() == ["n1" if one > other else "n2"]
    if min(one, other) >= 1 / (SERVERS + 1):  # who is less sure than chance speaks against itself
        assert rows.loc[0, "confidence"] <= max(one, other) + 1e-9


@given(CHANCES, st.sampled_from(["collectives", "counters"]))
def test_a_kind_that_sees_nothing_multiplies_the_odds(nothing, sure, kind) -> None:
    rows = joined(nothing, flows=finding("n1", sure), **{kind: None})
    odds = MISSES[kind] * sure / (1 - sure)
    assert rows.loc[0, "confidence"] == pytest.approx(odds / (1 + odds))


def test_who_names_nobody_and_who_cannot_see_the_job_change_no_place(nothing) -> None:
    nobody = finding("j", 0.7, culprit_kind="job", level="job", symptom="slow_steps")
    rows = joined(nothing, flows=nobody, collectives=finding("n3", 0.6))
    assert (rows.loc[0, "culprit"], rows.loc[0, "first_step"]) == ("n3", 3)
    assert rows.loc[0, "confidence"] == pytest.approx(0.6)
    blind = replace(nothing, jobs=nothing.jobs.iloc[:0])
    alone = replace(nothing, findings=pd.DataFrame([finding("n1", 0.6)]))
    found = together(alone, {"counters": blind}, TOPOLOGY).findings
    assert found.loc[0, "confidence"] == pytest.approx(0.6)
    assert json.loads(found.loc[0, "evidence"])["seen_by"]["counters"] == "cannot see it"


@pytest.mark.parametrize("other", [
    finding("n1", 0.9, start_ns=700, end_ns=900), finding("n1", 0.9, symptom="stopped"),
])  # fmt: skip
def test_other_times_and_stops_are_other_causes(nothing, other) -> None:
    rows = joined(nothing, flows=finding("n1", 0.6), collectives=other)
    assert len(rows) == 2
    assert rows["finding"].tolist() == [0, 1]
    assert rows["confidence"].is_monotonic_decreasing


def test_counted_errors_are_the_cause_of_slow_transfers(nothing) -> None:
    slow = finding("n1|leaf", 0.6, culprit_kind="link", cause="slow_link", symptom="slow_transfers")
    lossy = finding("n1", 0.6, cause="lossy_link", symptom="in_errors", start_ns=0, end_ns=900)
    rows = joined(nothing, flows=slow, counters=lossy)
    assert rows["cause"].tolist() == ["lossy_link"]


@pytest.mark.parametrize("node", ["s1", "s1.cluster.example", "n1"])
def test_a_node_of_a_log_is_the_server_of_that_name_or_address(nothing, tmp_path, node) -> None:
    failure = {"job": "", "stage": "died", "nodes": json.dumps([node]), "cause": "xid",
               "confidence": 0.9}  # fmt: skip
    pd.DataFrame([failure]).to_parquet(tmp_path / "failures.parquet")
    stop = replace(nothing, findings=pd.DataFrame([finding("n1", 0.6, symptom="hang")]))
    rows = together(stop, {}, TOPOLOGY, [tmp_path]).findings
    assert rows.loc[0, "confidence"] > 0.9
    assert json.loads(rows.loc[0, "evidence"])["seen_by"]["logs"] == "name it (sure: 90 %)"


def answered(run: Path, *given: str, logged: bool = False) -> tuple[pd.DataFrame, str]:
    """The findings of ``llmprism diagnose RUN``, and the words on the terminal."""
    if logged:
        CliRunner().invoke(llmlog, [str(run / "logs"), "--out", str(run / "l")])
        given += ("--logs", str(run / "l"))
    answer = CliRunner().invoke(app, ["diagnose", str(run), "--out", str(run / "found"), *given])
    assert answer.exit_code == 0, answer.output
    found = pd.read_parquet(run / "found" / "findings.parquet")
    return found, " ".join(answer.stdout.split())


XID = {"logs": {"kinds": ["gpu_lost"], "missing": 0.0, "truncated": 0.0},
       "faults": [{"kind": "crash", "job": "train", "rank": 11, "from_step": 12}]}  # fmt: skip


@pytest.mark.parametrize(("kind", "changes", "cause"), [
    ("collectives", {}, "slow_server"), ("logs", XID, "gpu_lost"),
])  # fmt: skip
def test_a_run_with_all_kinds_is_one_answer(
    tmp_path: Path, kind: str, changes: dict[str, Any], cause: str
) -> None:
    changes = {"collectives": {}, "collector.counters": {"interval_s": 0.1}, **changes}
    run = ps.simulate("faults/slow-server", set=changes, out=tmp_path / "run").folder
    found, words = answered(run, logged=kind == "logs")
    first, evidence = found.iloc[0], json.loads(found.loc[0, "evidence"])
    assert first["culprit"] in ("s0005", "10.0.5.1", "10.0.5.2")
    named = [one for one, says in evidence["seen_by"].items() if says.startswith("name it")]
    assert (named, first["confidence"] > 0.9) == (["flows", kind], True)
    assert f"{kind} name it" in words
    assert cause in [first["cause"], *evidence["or_causes"]]


def test_downs_that_are_counted_tell_why_a_transfer_is_slow(tmp_path: Path) -> None:
    changes = {"collector.counters": {"interval_s": 0.005}}
    run = ps.simulate("faults/flapping-nic", set=changes, out=tmp_path / "run").folder
    counted = pd.read_parquet(run / "counters.parquet")
    here = counted["port"].astype(str) == "10.0.1.1"
    downs = here.cumsum().where(here, 0).clip(upper=4)
    counted.assign(link_downs=downs).to_parquet(run / "counters.parquet", index=False)
    found, words = answered(run)
    assert found[["culprit", "cause"]].to_numpy().tolist() == [["10.0.1.1", "flapping_nic"]]
    assert "counters name it" in words


def test_one_cause_under_two_jobs_is_one_finding(tmp_path: Path) -> None:
    model = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}
    job = {"model": model, "dp": 4, "steps": 20, "mfu": 0.45, "compute_jitter": 0.01}
    job |= {"placement": "spread"}
    jobs = [{**job, "name": name, "micro_batches": count} for name, count in (("a", 8), ("b", 5))]
    fault = {"kind": "slow_server", "server": "s0002", "factor": 0.5, "from_s": 0.8, "to_s": 1.6}
    changes = {"cluster.servers": 4, "jobs": jobs, "faults": [fault], "collectives": {}}
    run = ps.simulate("faults/slow-server", set=changes, out=tmp_path / "run").folder
    found, words = answered(run)
    assert len(found) == 1
    assert "It slows job-" in words
    assert "without a finding" not in words


def test_who_waits_for_a_save_that_logs_show_is_not_slow(tmp_path: Path) -> None:
    jobs = {"micro_batches": 4, "mfu": 0.5, "steps": 22, "checkpoint": {"every": 17}}
    changes = {f"jobs.0.{name}": value for name, value in jobs.items()}
    run = ps.simulate("workloads/checkpoint-sync", set={**changes, "logs": {}}, seed=1,
                      out=tmp_path / "r").folder  # fmt: skip
    assert answered(run)[0]["culprit_kind"].tolist() == ["server"]
    found, _ = answered(run, logged=True)
    assert found[["culprit_kind", "cause"]].to_numpy().tolist() == [["job", "checkpoint"]]
    assert [one[0] for one in json.loads(found.loc[0, "evidence"])["marks"]] == ["flows", "logs"]


def test_a_kind_that_cannot_be_used_is_left_out_and_logs_without_tables_are_refused(
    tmp_path: Path,
) -> None:
    run = ps.simulate("tiny/pair", out=tmp_path / "run")
    (broken := tmp_path / "broken.jsonl").write_text("no records\n")
    answer = CliRunner().invoke(app, ["diagnose", str(run.folder), "--collectives", str(broken)])
    assert "collectives are left out: " in answer.stderr
    answer = CliRunner().invoke(app, ["diagnose", str(run.folder), "--logs", str(tmp_path)])
    assert answer.exit_code == 1
    assert "llmlog LOGS --out FOLDER writes it" in answer.stderr
