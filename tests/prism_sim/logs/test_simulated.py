"""Logs of simulated jobs have the times, the failures and the restarts of the simulation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from llmprism.cli import app as llmprism
from log_corpus import Corpus
from prism_sim.cli import app
from prism_sim.render import render_run
from prism_sim.toolkit import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    out = tmp_path_factory.mktemp("simulated") / "run"
    settings = ["--set", "logs.failures=0", "--set", "logs.clock_spread_ms=0"]
    arguments = ["simulate", "logs/crash", "--out", str(out), "--quiet", *settings]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return Corpus(out)


def test_each_attempt_is_a_job_of_the_scheduler(run: Corpus) -> None:
    assert [(job["job"], job["state"]) for job in run.jobs] == [
        ("train-0", "FAILED"),
        ("train-1", "COMPLETED"),
    ]


def test_the_failure_is_the_fault_of_the_simulation(run: Corpus) -> None:
    (failure,) = run.truth("failures").to_dict("records")
    fault = pd.read_parquet(run.folder / "truth/faults.parquet").iloc[0]
    assert (failure["job"], failure["rank"], failure["flow_fault"]) == ("train-0", 5, 0)
    assert failure["begin_ns"] == fault["start_ns"] + 20_000_000  # into_step_s
    ranks = pd.read_parquet(run.folder / "truth/ranks.parquet")
    assert failure["node"] == ranks.set_index("rank").loc[5, "server"]


def test_iterations_end_with_the_steps_of_the_simulation(run: Corpus) -> None:
    steps = pd.read_parquet(run.folder / "truth/steps.parquet")
    whole = steps.groupby("step")["end_ns"].agg(["max", "size"])
    ends = whole[whole["size"] == 8]["max"]
    stamps = re.findall(r"\[(2\d+-\S+ \S+),\d{3}\] \[INFO\].* step=(\d+), skipped", both(run))
    numbers = [int(number) for _, number in stamps]
    assert len(stamps) == len(ends)
    assert max(numbers) == 20
    shown = pd.to_datetime([stamp for stamp, _ in stamps], format="%Y-%m-%d %H:%M:%S")
    expected = pd.to_datetime(ends.to_numpy()).floor("s")
    assert sorted(shown) == sorted(expected)


def both(run: Corpus) -> str:
    return "\n".join(run.whole(job["job"]) for job in run.jobs)


def test_the_restart_loads_what_was_saved(run: Corpus) -> None:
    assert "successfully read" in run.whole("train-1")
    assert "successfully read" not in run.whole("train-0")
    assert "Saving model checkpoint: /ckpt" in run.whole("train-0")


def test_all_others_report_when_the_simulation_notices(run: Corpus) -> None:
    failure = run.truth("failures").iloc[0]
    rows = run.truth("lines")
    own = rows[(rows["event"] == "c10d.timeout") & (rows["job"] == "train-0")]
    waited_s = (own["time_ns"] - failure["begin_ns"]) / 1e9
    assert len(own) == 6  # the failed rank ends, and its agent ends the other one there
    assert waited_s.between(20.0, 20.2).all()


def test_the_same_run_without_logs_has_the_same_flows(run: Corpus, tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "scenarios/logs/crash.yaml").read_text(encoding="utf-8")
    file = tmp_path / "crash.yaml"
    file.write_text(text[: text.index("\nlogs:")], encoding="utf-8")
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["simulate", str(file), "--out", str(out), "--quiet"])
    assert result.exit_code == 0, result.output
    assert not (out / "logs").exists()
    name = "flows.parquet"
    assert (out / name).read_bytes() == (run.folder / name).read_bytes()


@pytest.fixture(scope="module")
def rendered(run: Corpus) -> Corpus:
    """The run with the diagnosis of its flows, rendered."""
    flows, topology, out = (run.folder / n for n in ("flows.parquet", "topology.json", "diagnosis"))
    arguments = [str(flows), "--topology", str(topology), "--out", str(out), "--quiet"]
    result = CliRunner().invoke(llmprism, arguments)
    assert result.exit_code == 0, result.output
    render_run(Run(run.folder), None)
    return run


def test_the_report_shows_logs_beside_flows(rendered: Corpus) -> None:
    """The failed rank shows its failure at once; six ranks report it when the others give up."""
    page = (rendered.folder / "report.html").read_text(encoding="utf-8")
    assert "crash rank 5 on s0002 at iteration 14: gpu lost; flows: s0002 sent nothing" in page
    section = page[page.index("Failures in the logs") :]
    row = re.sub(r"<[^>]+>", " ", section[section.index("<td>") : section.index("</table>")])
    assert " ".join(row.split()).startswith("train-0 gpu lost (hardware) rank 5 on s0002")
    assert re.search(r"0\.0 s\s+20\.0 s\s+6\s", row)
    assert "take the node out" in row


def test_the_trace_shows_the_failure_the_answer_and_who_only_reported_it(rendered: Corpus) -> None:
    content = json.loads((rendered.folder / "trace.json").read_text(encoding="utf-8"))
    named = [event for event in content["traceEvents"] if event["name"] == "process_name"]
    (pid,) = (e["pid"] for e in named if e["args"]["name"] == "logs of train-0")
    own = [event for event in content["traceEvents"] if event["pid"] == pid]
    shown = [event["name"] for event in own if event["ph"] == "i"]
    assert shown[0] == "kernel.xid_79 s0002"
    assert sum(name.startswith("c10d.timeout rank") for name in shown) == 6
    true, answer = (event for event in own if event["ph"] == "X")
    assert true["name"] == "gpu_lost rank 5 on s0002"
    assert answer["name"].startswith(
        "crash rank 5 on s0002 at iteration 14: gpu lost; flows: s0002"
    )
    assert answer["dur"] == pytest.approx(20e6, rel=0.01)  # until others report it
    assert answer["args"]["ranks that only report"] == 6
    assert answer["args"]["what to do"].startswith("take the node out")
