"""The method of L4: comparisons with other jobs, between nodes and over time; its library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from llmlog.cli import app
from llmlog.l4.comparisons import slow_window, warped
from llmlog.progress import Iteration
from log_corpus import Corpus

NODES = [f"n{number}" for number in range(6)]


def called(*arguments: str | Path) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json", "--quiet", "--method", "l4"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["failures"]


def write(folder: Path, jobs: dict[str, tuple[str, dict[str, str]]]) -> Path:
    """Jobs with a state and a log for each node; all have the same user."""
    rows = []
    for name, (state, logs) in jobs.items():
        (folder / name).mkdir(parents=True)
        for node, text in logs.items():
            (folder / name / f"{node}.log").write_text(text, encoding="utf-8")
        rows.append({"job": name, "nodes": NODES, "gpus_per_node": 2, "state": state, "user": "u1"})
    (folder / "index.json").write_text(json.dumps({"jobs": rows}), encoding="utf-8")
    return folder


def logs(odd: str, text: str) -> dict[str, str]:
    """Every node prints some lines; one prints more."""
    usual = "loading the data\nwarning: 3 files are late\n" * 5
    return {node: usual + (text if node == odd else "") for node in NODES}


def test_the_node_with_other_events_comes_first(tmp_path: Path) -> None:
    folder = write(tmp_path, {"j": ("FAILED", logs("n4", "device 7 reports a bad page\n" * 3))})
    (failure,) = called(folder)
    assert failure["node"] == "n4"
    assert json.loads(failure["nodes"])[0] == "n4"
    assert failure["because"].startswith("device <n> reports a bad page")


def test_events_of_successful_jobs_are_left_out(tmp_path: Path) -> None:
    """The known warning is printed by one node only, yet it is no event of the failure."""
    noise = "clock of node 3 was corrected by 12 ms\n"
    healthy = {"ok": ("COMPLETED", logs("n1", noise))}
    failed = {"bad": ("FAILED", logs("n2", noise + "device 7 reports a bad page\n"))}
    folder = write(tmp_path, healthy | failed)
    (failure,) = called(folder)
    assert "corrected" not in failure["because"]
    assert "bad page" in failure["because"]


def test_a_folder_of_healthy_logs_may_be_elsewhere(tmp_path: Path) -> None:
    noise = "clock of node 3 was corrected by 12 ms\n"
    healthy = write(tmp_path / "a", {"ok": ("COMPLETED", logs("n1", noise))})
    failed = write(tmp_path / "b", {"bad": ("FAILED", logs("n2", noise + "a bad page\n"))})
    (failure,) = called(failed, "--healthy", healthy)
    assert "corrected" not in failure["because"]


def test_the_library_names_causes_of_similar_cases(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {"j1": ("FAILED", logs("n4", "device 7 reports a bad page\n"))})
    again = write(tmp_path / "b", {"j2": ("FAILED", logs("n1", "device 2 reports a bad page\n"))})
    other = write(tmp_path / "c", {"j3": ("FAILED", logs("n1", "the file was not found\n"))})
    library = tmp_path / "library.json"
    called(first, "--library", library, "--confirm", "j1=hbm_error")
    assert called(again, "--library", library)[0]["cause"] == "hbm_error"
    assert called(other, "--library", library)[0]["cause"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--healthy", "."], "belong to --method l4"),
        (["--method", "l4", "--confirm", "a=b"], "needs --library"),
        (["--method", "l4", "--library", "l.json", "--confirm", "x"], "is not JOB=CAUSE"),
        (["--method", "l4", "--library", "l.json", "--confirm", "x=y"], "no failed job is called"),
    ],
)
def test_options_that_do_not_fit_are_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "logs", {"j": ("FAILED", logs("n4", "a bad page\n"))})
    result = CliRunner().invoke(app, ["logs", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_a_broken_library_is_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path, {"j": ("FAILED", logs("n4", "a bad page\n"))})
    (tmp_path / "l.json").write_text("[]")
    result = CliRunner().invoke(
        app, [str(folder), "--method", "l4", "--library", str(tmp_path / "l.json")]
    )
    assert result.exit_code == 1
    assert "is not a library of patterns" in result.stderr


def test_warped_series_have_no_distance_if_one_is_only_stretched() -> None:
    assert warped([1, 2, 2, 2, 3], [1, 1, 2, 3]) == 0
    assert warped([1, 1], [2, 2]) == 2


def test_the_window_in_which_iterations_become_slow_is_found() -> None:
    lengths = [1 + 0.01 * (step % 4) for step in range(60)] + [1.5] * 40
    iterations = [Iteration(n + 1, length, "f", n) for n, length in enumerate(lengths)]
    found = slow_window(iterations)
    assert found is not None
    assert found.number == 61
    assert slow_window(iterations[:60]) is None


def test_failures_of_a_corpus_are_found_in_most_jobs(failed_jobs: Corpus) -> None:
    found = {row["job"]: row for row in called(failed_jobs.folder / "logs")}
    true = failed_jobs.truth("failures").set_index("job")
    assert set(found) == set(true.index)
    iterations = true[true.iteration.notna() & (true.stage != "slow")].iteration
    right = [found[str(job)]["iteration"] == number for job, number in iterations.items()]
    assert sum(right) / len(right) > 0.8
