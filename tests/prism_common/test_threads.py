"""Calls in threads: the results of calls one after the other."""

from __future__ import annotations

import pytest

from prism_common.threads import both, in_threads


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_are_in_the_order_of_the_values(count: int) -> None:
    assert in_threads(lambda value: value**2, range(count)) == [value**2 for value in range(count)]


def test_the_first_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda value: 1 / value, [1, 0, 2])
    for calls in ((lambda: 1, lambda: 1 / 0), (lambda: 1 / 0, lambda: 1)):
        with pytest.raises(ZeroDivisionError):
            both(*calls)


def test_both_calls_give_their_results() -> None:
    assert both(lambda: 1, lambda: "two") == (1, "two")
