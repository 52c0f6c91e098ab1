"""Scores of answers about failed jobs, of l4, and of public logs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from evaluation.foreign.page import PAGE, PublicLog, drawn, drawn_table, judged, listed, summary
from evaluation.logs.l4.counting import Library
from evaluation.logs.l4.method import L4, slow_window
from evaluation.logs.page import score_world
from evaluation.logs.scoring import Case, Tally, score, tallied
from llmlog.diagnosis import Failure
from llmlog.progress import Iteration
from llmlog.reading import find_jobs
from llmlog.streams import Intake
from log_corpus import corpus


def test_f1_is_the_harmonic_mean_of_precision_and_recall() -> None:
    tally = Tally()
    tally.add("precision", 1, 2)
    tally.add("recall", 1, 1)
    assert tally.f1 == pytest.approx(2 / 3)


def case(kind: str, symptom: str) -> Case:
    return {"kind": kind, "symptom": symptom, "scored": {}}


def test_the_oracle_answers_the_most_frequent_cause_of_the_same_lines() -> None:
    cases = [
        case("a", "hang: x"),
        case("a", "hang: x"),
        case("b", "hang: x"),
        case("c", "crash: x"),
    ]
    oracle = tallied(cases)["oracle"]
    assert (sum(oracle.hits["cause"]), sum(oracle.of["cause"])) == (3, 4)


@pytest.mark.slow
def test_a_world_has_flows_and_logs_of_the_same_failure(tmp_path: Path) -> None:
    (scored,) = score_world(4, tmp_path)
    rules = {name: hits["top_1"] for name, hits in scored["scored"].items()}
    assert rules.pop("flows alone") == (1, 1)
    assert rules.pop("prism with flows, its logs lost") == (1, 1)
    assert rules.keys() == {"prism", "prism with flows", "prism, its logs lost"}


def test_causal_structure_finds_more_than_simple_rules(tmp_path: Path) -> None:
    folder = corpus(tmp_path, failures=12, settings="successes: 0").folder
    tallies = tallied(score(folder, Library()))
    first = {name: sum(tally.hits.get("top_1", [])) for name, tally in tallies.items()}
    assert first["prism"] == max(first.values())
    for tally in tallies.values():
        assert all(sum(tally.hits[name]) <= sum(tally.of[name]) for name in tally.of)


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


FAILED = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
KeyError: 'lr'
"""


def log(path: str, right: dict[str, object] | None, fence: str = "") -> PublicLog:
    return PublicLog("o/r", "c0ffee", "MIT", path, "PyTorch", True, right, fence)


def test_each_log_gets_a_verdict(tmp_path: Path) -> None:
    place = tmp_path / "o+r"
    place.mkdir()
    (place / "notes.md").write_text(f"It failed:\n```\n{FAILED}```\n", encoding="utf-8")
    (place / "well.txt").write_text("step: 1  loss: 3.2\nstep: 2  loss: 3.1\n", encoding="utf-8")
    (place / "dark.txt").write_text("zork\n", encoding="utf-8")
    logs = [
        log("notes.md", {"stage": "launch", "cause": ["key_error"]}, fence="KeyError"),
        log("notes.md", {"cause": "type_error"}, fence="KeyError"),
        log("well.txt", None),
        log("dark.txt", {"stage": "crash"}),
        log("gone.txt", None),
    ]
    verdicts = list(judged(tmp_path, logs))
    outcomes = ["right", "wrong", "right", "not understood", "not in the folder"]
    assert [verdict.outcome for verdict in verdicts] == outcomes
    assert "| failed, looked at | 3 | 1 (33 %" in summary(verdicts[:4])


def test_the_list_has_sixty_logs_of_twelve_stacks_half_of_them_not_looked_at() -> None:
    logs = listed()
    assert len(logs) >= 60
    assert len({one.stack for one in logs}) >= 12
    assert Counter(one.seen for one in logs)[False] >= len(logs) / 2
    assert all(one.commit and one.licence for one in logs)


def test_the_page_has_a_row_for_each_log_that_was_there() -> None:
    figures = json.loads(PAGE.with_suffix(".json").read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    assert len(figures) >= 60
    for name, outcome in figures.items():
        (row,) = (line for line in text.split("\n") if line.startswith(f"| {name} |"))
        assert row.endswith(f"| {outcome} |")


def test_drawn_logs_are_mostly_of_other_stacks_and_stay_right() -> None:
    outcomes = list(drawn())
    stacks = {verdict.log.stack for verdict, _ in outcomes}
    assert len(outcomes) >= 40
    assert len(stacks - {one.stack for one in listed()}) >= 0.9 * len(stacks)
    wrong = [verdict.log.repository for verdict, _ in outcomes if verdict.outcome == "wrong"]
    assert wrong == []
    assert drawn_table() in PAGE.read_text(encoding="utf-8")
