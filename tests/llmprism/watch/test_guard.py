"""Whatever a part does that is read again, what was known holds, and it is said."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from prism_common.errors import Problem, UserError
from prism_common.service.guard import Guard


def fail(error: BaseException) -> Callable[[], Any]:
    def read() -> Any:
        raise error

    return read


@pytest.mark.parametrize(
    "error",
    [
        UserError(Problem("no list of pods", "api")),
        RecursionError("too deep"),
        MemoryError("10 GB"),
        ValueError("garbage"),
        SystemExit(3),
    ],
)
def test_an_answer_of_any_kind_is_a_problem_until_a_right_one_comes(error: BaseException) -> None:
    guard = Guard()
    assert guard.read("names", fail(error), is_due=True) is None
    assert guard.read("names", fail(error), is_due=True) is None
    assert guard.present().keys() == {"names"}
    assert guard.failures["names"] == 2
    assert guard.read("names", lambda: 7, is_due=True) == 7
    assert guard.present() == {}


def test_nothing_waits_for_an_answer_that_does_not_come() -> None:
    guard, late = Guard(), threading.Event()
    assert guard.read("names", lambda: late.wait(60) and "late", is_due=True) is None
    late.set()
    found = None
    while found is None:
        found = guard.read("names", lambda: "other", is_due=False)
    assert found == "late"


def test_a_thread_that_fails_begins_again() -> None:
    guard, tries = Guard(), iter([fail(ValueError("once")), lambda: None])
    guard.thread("posts", lambda: next(tries)()).join(10)
    assert guard.failures["posts"] == 1
