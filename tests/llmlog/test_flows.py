"""Flows beside logs: they name the node that went silent first, or that is slow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from llmlog.cli import app

NODES = ("a", "b", "c")
BEGIN_NS, END_NS = 1_767_225_600_000_000_000, 1_767_225_900_000_000_000
CRASH = (
    "[default0]:[rank{}]: Traceback (most recent call last):\n[default0]:[rank{}]: KeyError: 'lr'\n"
)
SCHEMA = pa.schema(
    [
        ("symptom", pa.string()),
        ("culprit", pa.string()),
        ("start_ns", pa.int64()),
        ("cost", pa.float64()),
        ("confidence", pa.float64()),
        ("evidence", pa.string()),
    ]
)


def finding(culprit: str, *others: str, symptom: str = "stopped", at_s: int = 60) -> dict[str, Any]:
    evidence = json.dumps({"one_of": [culprit, *others]})
    start_ns = BEGIN_NS + at_s * 10**9
    return dict(zip(SCHEMA.names, (symptom, culprit, start_ns, 1e9, 0.6, evidence), strict=True))


def tables(folder: Path, *findings: dict[str, Any]) -> Path:
    """What a diagnosis of flows writes: node a has the addresses a.1 and a.2, and so on."""
    folder.mkdir()
    rows = [{"address": f"{node}.{nic}", "server": node} for node in NODES for nic in (1, 2)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "jobs.parquet")
    pq.write_table(pa.Table.from_pylist(list(findings), SCHEMA), folder / "findings.parquet")
    return folder


def diagnosed(folder: Path, flows: Path, logs: dict[str, str]) -> dict[str, Any]:
    """The failure that the command finds in a job of three nodes, with flows."""
    (folder / "job1").mkdir()
    for name, text in logs.items():
        (folder / "job1" / name).write_text(text, encoding="utf-8")
    row = {"job": "job1", "nodes": NODES, "gpus_per_node": 2, "state": "FAILED"}
    row |= {"begin_ns": BEGIN_NS, "end_ns": END_NS}
    (folder / "index.json").write_text(json.dumps({"jobs": [row]}), encoding="utf-8")
    arguments = [str(folder), "--flows", str(flows), "--json", "--quiet"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    (failure,) = json.loads(result.stdout)["failures"]
    return dict(failure)


def test_flows_name_the_node_if_the_logs_are_silent(tmp_path: Path) -> None:
    flows = tables(tmp_path / "flows", finding("b.2", "c.1"))
    failure = diagnosed(tmp_path, flows, {"slurm-1.out": "step 3\n"})
    assert json.loads(failure["nodes"]) == ["b", "c"]
    assert "b sent nothing from 2026-01-01 00:01:00.000 on; it may also be c" in failure["because"]


def test_a_node_that_both_name_comes_first(tmp_path: Path) -> None:
    """The node that lost a connection first is b or c; flows say c or a."""
    lost = "{}:100:20 [0] socket.cc:49 NCCL WARN Connection closed by remote peer 1.1.1.1<2>\n"
    logs = {f"{node}.log": lost.format(node) for node in "bc"}
    flows = tables(tmp_path / "flows", finding("c.1", "a.1"))
    assert diagnosed(tmp_path, flows, logs)["node"] == "c"


def test_a_stated_fault_outweighs_flows(tmp_path: Path) -> None:
    flows = tables(tmp_path / "flows", finding("b.1"))
    failure = diagnosed(tmp_path, flows, {"c.log": CRASH.format(4, 4)})
    assert json.loads(failure["nodes"]) == ["c", "b"]
    assert failure["rank"] == 4


def test_flows_name_the_node_of_a_fault_that_names_none(tmp_path: Path) -> None:
    flows = tables(tmp_path / "flows", finding("b.1"))
    batch = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some may have been killed.\n"
    )
    failure = diagnosed(tmp_path, flows, {"slurm-1.out": batch})
    assert (failure["cause"], failure["node"]) == ("host_out_of_memory", "b")


def test_a_fault_that_all_nodes_state_stays_nobodys_own(tmp_path: Path) -> None:
    flows = tables(tmp_path / "flows", finding("b.1"))
    logs = {
        f"{node}.log": CRASH.format(rank, rank) for rank, node in zip((0, 2, 4), NODES, strict=True)
    }
    assert diagnosed(tmp_path, flows, logs)["node"] is None


@pytest.mark.parametrize(
    "other",
    [
        finding("b.1", at_s=-60),
        finding("b.1", at_s=400),
        finding("b.1", symptom="slow_transfers"),
        finding("elsewhere"),
    ],
    ids=["before the job", "after the job", "no stop", "another node"],
)
def test_other_findings_do_not_count(tmp_path: Path, other: dict[str, Any]) -> None:
    flows = tables(tmp_path / "flows", other)
    failure = diagnosed(tmp_path, flows, {"slurm-1.out": "step 3\n"})
    assert failure["node"] is None


def test_flows_name_the_slow_node(tmp_path: Path) -> None:
    times = [500 + n % 3 for n in range(20)] + [900] * 20
    lines = [
        f" iteration {n:8}/ 100 | elapsed time per iteration (ms): {time}.0 |"
        for n, time in enumerate(times, 1)
    ]
    slow = finding("a.1|leaf", symptom="slow_transfers")
    failure = diagnosed(
        tmp_path, tables(tmp_path / "flows", slow), {"slurm-1.out": "\n".join(lines)}
    )
    assert (failure["stage"], failure["iteration"], failure["node"]) == ("slow", 21, "a")


def test_the_page_shows_what_flows_say(tmp_path: Path) -> None:
    flows, page = tables(tmp_path / "flows", finding("b.1")), tmp_path / "page.html"
    diagnosed(tmp_path, flows, {"slurm-1.out": "step 3\n"})
    arguments = [str(tmp_path), "--flows", str(flows), "--page", str(page)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert "b sent nothing from" in page.read_text(encoding="utf-8")


def test_flows_without_a_job_tell_nothing(tmp_path: Path) -> None:
    flows = tables(tmp_path / "flows", finding("b.1"))
    empty = pa.table({"job": pa.array([], pa.string()), "address": pa.array([], pa.string())})
    pq.write_table(empty, flows / "jobs.parquet")
    failure = diagnosed(tmp_path, flows, {"slurm-1.out": "step 3\n"})
    assert failure["node"] is None


@pytest.mark.parametrize("content", [None, b"no table"])
def test_what_is_no_table_of_findings_is_one_error(tmp_path: Path, content: bytes | None) -> None:
    flows = tables(tmp_path / "flows")
    (flows / "findings.parquet").unlink()
    if content is not None:
        (flows / "findings.parquet").write_bytes(content)
    log = tmp_path / "out.txt"
    log.write_text("step 3\n", encoding="utf-8")
    result = CliRunner().invoke(app, [str(log), "--flows", str(flows)])
    assert result.exit_code == 1
    assert "findings.parquet" in result.stderr
    assert result.stderr.count("error: ") == 1
