"""Pieces of work: kept results, and processes that do them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_common.program import NO_MEMORY
from prism_sim.studies.pool import DIED, UNREADABLE, attempt, outcomes
from prism_sim.toolkit import Content, Piece, do_missing, kept_content

DONE: list[int] = []


def _double(number: int) -> Content:
    DONE.append(number)
    return {"twice": {"value": 2 * number}}


def _all_done(folder: Path, retry: bool = False) -> tuple[int, int]:
    DONE.clear()
    pieces = [Piece("ab12", "one", 1), Piece("cd34", "two", 2)]
    return do_missing(_double, pieces, folder, 1, None, retry, total=2, result="twice")


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", '{"case": "one"}', '{"case": "one", "twice": {}}', '{"case": "on',
     '{"case": "one", "error": ""}', "\x00\x00"],
)  # fmt: skip
def test_a_file_without_a_result_counts_as_missing(tmp_path: Path, text: str) -> None:
    assert _all_done(tmp_path) == (2, 0)
    (tmp_path / "ab12.json").write_text(text)
    assert _all_done(tmp_path) == (1, 1)
    assert DONE == [1]
    assert kept_content(tmp_path, "ab12")["twice"] == {"value": 2}


def test_a_file_that_is_not_text_counts_as_missing(tmp_path: Path) -> None:
    _all_done(tmp_path)
    (tmp_path / "ab12.json").write_bytes(b"\xff\xfe{")
    assert _all_done(tmp_path) == (1, 1)


def test_an_error_counts_as_done_without_retry(tmp_path: Path) -> None:
    _all_done(tmp_path)
    (tmp_path / "ab12.json").write_text('{"case": "one", "error": "too large"}')
    assert _all_done(tmp_path) == (0, 2)
    assert _all_done(tmp_path, retry=True) == (1, 1)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_failed_task_gives_the_reason_and_the_others_continue(processes: int) -> None:
    results = dict(outcomes(math.sqrt, [4.0, -1.0, 9.0], processes))
    assert [results[4.0].result, results[9.0].result] == [2.0, 3.0]
    assert results[-1.0].error is not None
    assert "ValueError: math domain error" in results[-1.0].error


@pytest.mark.parametrize("processes", [1, 2])
def test_a_task_without_enough_memory_says_so(processes: int) -> None:
    tasks = ["bytes(1 << 62)", "2"]
    results = dict(outcomes(eval, tasks, processes))
    assert results["bytes(1 << 62)"].error == NO_MEMORY
    assert results["2"].result == 2


def test_a_task_that_ends_its_process_is_separated_from_its_neighbours() -> None:
    tasks = ["2", "__import__('os')._exit(3)", "4"]
    results = [(task, outcome.result, outcome.error) for task, outcome in outcomes(eval, tasks, 2)]
    assert sorted(results, key=lambda row: tasks.index(row[0])) == [
        ("2", 2, None),
        (tasks[1], None, DIED),
        ("4", 4, None),
    ]


def test_a_signal_during_a_finalizer_ends_a_worker_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Finalizers pass on no exception: the exit that the signal raises there has no effect."""
    finalizer = "type('F', (), {'__del__': lambda _: __import__('signal').raise_signal(15)})()"
    tasks = [f"{finalizer} and __import__('time').sleep(60)", "2"]
    assert dict(outcomes(eval, tasks, 2))[tasks[0]].error == DIED
    assert "Traceback" not in capfd.readouterr().err


def test_a_worker_that_cannot_import_a_task_says_so(tmp_path, monkeypatch) -> None:
    """A module that only this process can import, as an editor's or a notebook's."""
    (tmp_path / "only_here.py").write_text("def work(task):\n    return task\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    work = importlib.import_module("only_here").work
    monkeypatch.undo()
    for _, outcome in outcomes(work, [1, 2], 2):
        assert UNREADABLE in (outcome.error or "")
        assert "only_here" in (outcome.error or "")


def test_ctrl_c_is_no_failure_of_a_task() -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(interrupted, 1)


def test_many_tasks_are_taken_only_as_they_are_needed() -> None:
    taken = 0

    def endless() -> Iterator[float]:
        nonlocal taken
        while True:
            taken += 1
            yield float(taken)

    for _, number in zip(outcomes(math.sqrt, endless(), 2), range(10), strict=False):
        assert taken <= number + 1 + 2 * 2
    assert next(iter(outcomes(math.sqrt, endless(), 1)))[1].result is not None


def test_the_tasks_after_a_crash_go_on() -> None:
    tasks = ["1", "__import__('os')._exit(3)", *map(str, range(2, 20))]
    results = dict(outcomes(eval, tasks, 2))
    assert results.keys() == set(tasks)
    assert [task for task in tasks if results[task].error] == [tasks[1]]
