"""A corpus of logs, and its truth."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from log_corpus import Corpus, corpus
from prism_sim.cli import app
from prism_sim.logs.config import Logs
from prism_sim.logs.failures import FAILURES
from prism_sim.logs.population import Fate, fates
from prism_sim.logs.shares import STAGES
from prism_sim.toolkit import Draws


def digests(made: Corpus) -> dict[str, str]:
    """A digest of each file of a run, except the manifest, which has times."""
    paths = [path for path in made.folder.rglob("*") if path.is_file()]
    return {
        path.relative_to(made.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.name != "manifest.json" and not path.name.startswith(".prism-sim")
    }


def failed(failures: int, seed: int, **options: object) -> list[Fate]:
    """The failed jobs of a population."""
    found = fates(Logs.model_validate({"failures": failures, **options}), Draws(seed))
    return [fate for fate in found if fate.kind is not None]


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        runs.append(digests(corpus(tmp_path / name, 5, "rotate_mbytes: 1")))
    assert runs[0] == runs[1]
    assert len(runs[0]) > 20


def test_stages_and_causes_have_the_published_shares() -> None:
    made = failed(4000, 5, repeats=0)
    count = Counter(fate.kind.stage for fate in made if fate.kind)
    for stage, share in STAGES.items():
        assert count[stage] / len(made) == pytest.approx(share, abs=0.025)
    kinds = Counter(fate.kind.name for fate in made if fate.kind)
    hardware, user = kinds["illegal_access_hardware"], kinds["illegal_access_user"]
    assert hardware / (hardware + user) == pytest.approx(21 / 62, abs=0.12)


def test_there_are_kinds_of_every_category_and_stage() -> None:
    assert len(FAILURES) >= 25
    assert {kind.stage for kind in FAILURES.values()} == {*STAGES}
    assert {kind.category for kind in FAILURES.values()} == {
        "hardware", "user", "framework", "platform",
    }  # fmt: skip


def test_the_open_set_has_nothing_that_is_held_out(drawn: Corpus) -> None:
    assert not drawn.truth("jobs")["held_out"].any()
    assert not drawn.truth("failures")["held_out"].any()


def test_every_failed_job_of_the_exam_has_something_held_out() -> None:
    for fate in failed(300, 3, population="exam"):
        assert fate.kind is not None
        assert fate.kind.held_out or fate.choice == "held out"


def test_a_part_that_fails_again_is_the_same_gpu(tmp_path: Path) -> None:
    made = corpus(tmp_path, 12, "kinds: [hbm_error, false_out_of_memory], repeats: 1, successes: 0")
    failures = made.truth("failures").set_index("failure")
    jobs = made.truth("jobs").set_index("job")
    again = failures[failures["follows"].notna()]
    assert len(again)
    for row in again.to_dict("records"):
        before = failures.loc[int(row["follows"])]
        gpus = jobs.loc[row["job"], "gpus_per_node"]
        assert (row["node"], row["rank"] % gpus) == (before["node"], before["rank"] % gpus)
        assert row["symptom"] != before["symptom"]


def test_parts_of_a_rotated_file_join_to_the_whole(tmp_path: Path) -> None:
    settings = "layout: job, nccl_debug: coll, calls: 60, successes: 0, kinds: [gpu_lost]"
    texts = []
    for name, extra in (("whole", ""), ("parts", ", rotate_mbytes: 1")):
        (tmp_path / name).mkdir()
        made = corpus(tmp_path / name, 1, settings + extra)
        files = [file for file in made.files("job00000") if "slurm" in file]

        def age(file: str) -> int:
            number = file.removesuffix(".gz").rpartition(".out")[2].removeprefix(".")
            return int(number or 0)

        ordered = sorted(files, key=age, reverse=True)
        texts.append("".join(made.text(file) for file in ordered))
        assert all(len(made.text(file)) <= 10**6 or name == "whole" for file in files)
        assert len(files) > 1 or name == "whole"
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (["logs.failures=0"], "no failures"),
        (["logs.max_nodes=99"], "99 nodes"),
        (["logs.min_nodes=4", "logs.max_nodes=3"], "min_nodes (4)"),
        (["logs.kinds=[gpu_los]"], "gpu_lost"),
    ],
)
def test_a_wrong_section_is_refused(settings: list[str], place: str, tmp_path: Path) -> None:
    options = [part for value in settings for part in ("--set", value)]
    result = CliRunner().invoke(app, ["logs", "logs/demo", "--out", str(tmp_path / "a"), *options])
    assert result.exit_code == 1
    assert place in result.stderr


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
