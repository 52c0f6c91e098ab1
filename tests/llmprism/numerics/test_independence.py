"""Independent records against records of bunches and of few partners, by the theory of both."""

import numpy as np
import pytest

from llmprism.numerics.independence import nothing_circulates

HOUR_NS, NODES = 3_600_000_000_000, 50
EPOCH_NS = 1_700_000_000 * 10**9
SIZE = 50_000


def times(seed: int, tick_ns: int = 1, size: int = SIZE) -> np.ndarray:
    """Times of independent events of an hour, in order; the hour begins late."""
    drawn = EPOCH_NS + np.random.default_rng(seed).integers(0, HOUR_NS, size)
    return np.sort(drawn // tick_ns * tick_ns)


def ends(seed: int, size: int = SIZE, nodes: int = NODES) -> tuple[np.ndarray, np.ndarray]:
    """Independent sources and destinations."""
    draw = np.random.default_rng(seed)
    src = draw.integers(0, nodes, size)
    return src.astype(np.int32), ((src + draw.integers(1, nodes, size)) % nodes).astype(np.int32)


@pytest.mark.parametrize("tick_ns", [1, 1_000_000, 1_000_000_000])
@pytest.mark.parametrize("nodes", [12, 2000])
def test_independent_records_do_not_circulate_by_any_clock(tick_ns: int, nodes: int) -> None:
    for seed in range(4):
        src, dst = ends(seed, nodes=nodes)
        assert nothing_circulates(times(seed, tick_ns), src, dst, tick_ns)


def test_nor_do_regular_ones() -> None:
    assert nothing_circulates(np.arange(SIZE) * 1_000, *ends(1), 1)


def test_nor_where_the_rate_changes_in_the_course_of_a_day() -> None:
    uniform = (times(5) - EPOCH_NS) / HOUR_NS
    day = uniform + 0.9 * np.sin(2 * np.pi * uniform) / (2 * np.pi)  # a rate from 0.1 to 1.9
    assert nothing_circulates((day * HOUR_NS).astype(np.int64), *ends(2), 1)


def test_nor_where_some_receivers_are_popular() -> None:
    popular = np.random.default_rng(3).zipf(1.5, SIZE) % NODES
    assert nothing_circulates(times(3), ends(3)[0], popular.astype(np.int32), 1)


@pytest.mark.parametrize("size", [2, 8, 1000])
def test_records_that_begin_together_may_circulate(size: int) -> None:
    together = np.repeat(times(1, size=SIZE // size), size)
    assert not nothing_circulates(together, *ends(1), 1)


def test_so_may_records_that_pause_in_every_step() -> None:
    step_ns = HOUR_NS // 60
    drawn = times(2)
    assert not nothing_circulates(drawn // step_ns * step_ns + drawn % step_ns // 2, *ends(1), 1)


@pytest.mark.parametrize("partners", [1, 2, 16])
def test_so_may_records_of_few_partners_that_timers_end(partners: int) -> None:
    draw = np.random.default_rng(4)
    src = draw.integers(0, NODES, SIZE)
    dst = (src + draw.integers(1, partners + 1, SIZE)) % NODES
    assert not nothing_circulates(times(4), src.astype(np.int32), dst.astype(np.int32), 1)


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_few_records_tell_nothing(size: int) -> None:
    assert not nothing_circulates(times(1, size=size), *ends(1, size), 1)


def test_nor_does_a_single_time() -> None:
    assert not nothing_circulates(np.zeros(SIZE, np.int64), *ends(1), 1)
