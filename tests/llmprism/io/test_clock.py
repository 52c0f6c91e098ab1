"""How fine a clock is."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.io.clock import clock_tick_ns

EPOCH = 1_700_000_000_123_456_789


@pytest.mark.parametrize("tick", [1, 1_000, 1_000_000, 10_000_000, 1_000_000_000])
def test_the_tick_of_random_times_is_found(tick: int) -> None:
    times = EPOCH + np.random.default_rng(1).integers(0, 10**6, 1000) * tick
    assert clock_tick_ns(times) == tick


def test_a_few_times_of_another_clock_do_not_hide_the_tick() -> None:
    times = EPOCH + np.random.default_rng(1).integers(0, 10**6, 1000) * 1_000_000
    times[:5] += 17
    assert clock_tick_ns(times) == 1_000_000


@pytest.mark.parametrize("times", [[], [5], [5] * 100, [0, 1000, 2000]])
def test_few_times_show_no_tick(times: list[int]) -> None:
    assert clock_tick_ns(np.array(times, dtype=np.int64)) == 1


def test_operations_that_all_last_as_long_are_no_tick() -> None:
    begin = np.random.default_rng(1).integers(0, 10**8, 700) * 7_457
    start = (
        EPOCH + np.repeat(np.sort(begin), 48) + np.tile(np.repeat([0, 1, 2], 16), 700) * 6_472_676
    )
    assert clock_tick_ns(start, start + 6_472_676) < 6_472_676
