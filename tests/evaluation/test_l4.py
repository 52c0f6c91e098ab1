"""The method of L4: comparisons with other jobs, between nodes and over time; its library."""

from __future__ import annotations

import json
from pathlib import Path

from evaluation.logs.l4.counting import Library
from evaluation.logs.l4.method import L4, slow_window
from llmlog.diagnosis import Failure
from llmlog.progress import Iteration
from llmlog.reading import find_jobs
from llmlog.streams import Intake
from log_corpus import corpus

NODES = [f"n{number}" for number in range(6)]


def called(folder: Path) -> list[Failure]:
    found = L4().diagnose(find_jobs([folder]), [], Intake())
    return [failure for _, failure in found if failure is not None]


def texts(failure: Failure) -> str:
    return "; ".join(event.text for event in failure.events)


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
    assert failure.nodes[0] == "n4"
    assert texts(failure).startswith("device <n> reports a bad page")


def test_events_of_successful_jobs_are_left_out(tmp_path: Path) -> None:
    """The known warning is printed by one node only, yet it is no event of the failure."""
    noise = "clock of node 3 was corrected by 12 ms\n"
    healthy = {"ok": ("COMPLETED", logs("n1", noise))}
    failed = {"bad": ("FAILED", logs("n2", noise + "device 7 reports a bad page\n"))}
    folder = write(tmp_path, healthy | failed)
    (failure,) = called(folder)
    assert "corrected" not in texts(failure)
    assert "bad page" in texts(failure)


def test_the_library_names_causes_of_similar_cases() -> None:
    library = Library()
    library.learn({"device <n> reports a bad page", "it ends"}, "hbm_error")
    assert library.causes({"device <n> reports a bad page"}) == {"hbm_error": 1.0}
    assert library.causes({"the file was not found"}) == {}


def test_the_window_in_which_iterations_become_slow_is_found() -> None:
    lengths = [1 + 0.01 * (step % 4) for step in range(60)] + [1.5] * 40
    iterations = [Iteration(n + 1, length, "f", n) for n, length in enumerate(lengths)]
    found = slow_window(iterations)
    assert found is not None
    assert found.number == 61
    assert slow_window(iterations[:60]) is None


def test_failures_of_a_corpus_are_found_in_most_jobs(tmp_path: Path) -> None:
    failed_jobs = corpus(tmp_path, failures=12, settings="successes: 0.5, missing: 0")
    found = {failure.job: failure for failure in called(failed_jobs.folder / "logs")}
    true = failed_jobs.truth("failures").set_index("job")
    assert set(found) == set(true.index)
    iterations = true[true.iteration.notna() & (true.stage != "slow")].iteration
    right = [found[str(job)].iteration == number for job, number in iterations.items()]
    assert sum(right) / len(right) > 0.8
