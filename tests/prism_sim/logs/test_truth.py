"""The truth of logs: each row points at its line, and says what the line is."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from log_corpus import Corpus, corpus

WORDS = {
    "torchrun.failed": "failed (exitcode: ",
    "torchrun.closing": "closing signal SIGTERM",
    "c10d.timeout": "Watchdog caught collective operation timeout",
    "slurm.cancelled": "CANCELLED AT",
    "slurm.ended": "srun: error: ",
    "kernel.denied": 'apparmor="DENIED"',
    "deepspeed.overflow": "OVERFLOW!",
    "storage.retry": "retrying (1/4)",
}
"""A part of the only line of some events."""


def test_rows_point_at_their_lines(drawn: Corpus) -> None:
    rows = drawn.truth("lines")
    assert {*rows["role"]} == {"indicator", "cascade", "teardown", "boilerplate", "benign"}
    for file, own in rows.groupby("file"):
        text = drawn.text(str(file))
        lines = text.split("\n")
        starts = [0, *(len(line.encode()) + 1 for line in lines)]
        offsets = pd.Series(starts).cumsum()
        assert (offsets[own["line"] - 1].to_numpy() == own["offset_bytes"].to_numpy()).all()
        for row in own.itertuples():
            assert WORDS.get(str(row.event), "") in lines[int(str(row.line)) - 1]


@pytest.mark.parametrize("event", WORDS)
def test_every_such_line_has_a_row(drawn: Corpus, event: str) -> None:
    rows = drawn.truth("lines")
    own = rows[rows["event"] == event].groupby("file").size()
    every = [file for job in drawn.jobs for file in drawn.files(job["job"])]
    found = {file: drawn.text(file).count(WORDS[event]) for file in every}
    if event == "c10d.timeout":  # a later exception of the same process repeats the sentence
        assert own.sum() > 0
        assert all(found[str(file)] > count for file, count in own.items())
    else:
        cut = sum(not drawn.text(file).endswith("\n") for file in every)
        assert sum(found.values()) - own.sum() in range(cut + 1)  # a cut line may have the words


def test_failures_name_ranks_of_their_nodes(drawn: Corpus) -> None:
    jobs = {job["job"]: job for job in drawn.jobs}
    failures = drawn.truth("failures")
    assert len(failures) == 30
    for row in failures.to_dict("records"):
        job = jobs[row["job"]]
        ranks, nodes = json.loads(row["ranks"]), json.loads(row["nodes"])
        assert {job["nodes"][rank // job["gpus_per_node"]] for rank in ranks} <= {*nodes}
        assert (row["node"] in nodes and row["rank"] in ranks) if nodes else pd.isna(row["node"])
        assert job["begin_ns"] <= row["begin_ns"] <= row["end_ns"] == job["end_ns"]
        assert (row["iteration"] > 0) != (row["stage"] == "launch")
        assert job["state"] != "COMPLETED"


def test_the_indicator_comes_before_what_follows_from_it(drawn: Corpus) -> None:
    """Except for hangs, where the culprit is seen only when others give up."""
    rows = drawn.truth("lines")
    failures = drawn.truth("failures")
    checked = 0
    for row in failures[~failures["stage"].isin(["hang", "slow"])].to_dict("records"):
        own = rows[rows["job"] == row["job"]]
        first = own[own["role"] == "indicator"]["time_ns"].min()
        later = own[own["role"].isin(["cascade", "teardown"])]["time_ns"].min()
        if pd.notna(row["reported_ns"]) and row["kind"] not in ("node_power", "host_maintenance"):
            checked += 1
            assert row["begin_ns"] - 10**7 <= first == row["reported_ns"] < later
    assert checked > 10


def test_healthy_jobs_have_only_benign_lines(drawn: Corpus) -> None:
    rows, jobs = drawn.truth("lines"), drawn.truth("jobs")
    healthy = jobs[jobs["failure"].isna()]
    assert len(healthy) > 5
    assert {*rows[rows["job"].isin(healthy["job"])]["role"]} == {"benign"}
    assert {*healthy["state"]} == {"COMPLETED"}


def test_a_successful_job_before_has_the_tools_of_the_failed_one(drawn: Corpus) -> None:
    jobs = drawn.truth("jobs")
    for _, own in jobs.groupby("user"):
        assert own["versions"].nunique() == 1


def test_absent_and_cut_files_are_in_the_truth(tmp_path: Path) -> None:
    made = corpus(tmp_path, 8, "missing: 0.3, truncated: 0.5, layout: node")
    nodes, rows = made.truth("nodes"), made.truth("lines")
    assert 0 < nodes["missing"].sum() < len(nodes)
    for row in nodes.to_dict("records"):
        file = f"{row['job']}/{row['node']}.log.gz"
        assert (file in made.files(row["job"])) != row["missing"]
        own = rows[rows["file"] == file]["time_ns"]
        if pd.notna(row["cut_ns"]) and not row["missing"]:
            assert (own < row["cut_ns"]).all()
            assert made.text(file)[-1:] != "\n"
