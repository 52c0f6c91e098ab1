"""Bytes after which records begin again, and the steps that they show."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.steps import repeated_bytes
from llmprism.methods.prism.steps.repeated_bytes import RepeatedBytes
from llmprism.methods.prism.steps.stepping import find_steps

MS = 1_000_000
STEP = np.array([1450, 400, 400, 400, 1070, 1200, 1200, 1850, 800, 2110]) * 1000
"""Messages of FSDP on two ranks in a real capture, rounded [bytes]."""
STEPS = 18


def fsdp(joined: float = 0.0, headers: float = 0.0, steps: int = STEPS, seed: int = 3) -> Traffic:
    """Two ranks that send the messages of :data:`STEP` to each other, in each of the ``steps``.

    Passes take up to 1.3 times as long in some steps, so that no time repeats, and the update takes
    no longer than a layer. ``joined``: share of silences that the exporter bridges. ``headers``:
    bytes of a message that vary, as a share of it.
    """
    rng = np.random.default_rng(seed)
    size = np.tile(STEP, steps)
    took_ns = size / 0.04 * np.repeat(rng.uniform(1, 1.3, steps), STEP.size)
    rest_ns = rng.uniform(8, 16, size.size) * MS
    start = np.cumsum(took_ns + rest_ns) - took_ns
    opens = np.append(True, rng.random(size.size - 1) >= joined)
    record = np.cumsum(opens) - 1
    sizes = np.bincount(record, size * (1 + headers * rng.standard_normal(size.size)))
    starts = start[opens]
    ends = np.append((start + took_ns)[:-1][opens[1:]], (start + took_ns)[-1])
    both = np.repeat(np.arange(starts.size), 2)
    return Traffic(
        np.arange(both.size, dtype=np.int32), starts[both].astype(np.int64),
        ends[both].astype(np.int64), sizes[both].astype(np.int64),
        np.zeros(both.size, np.int32), np.arange(both.size) % 2 == 0,
    )  # fmt: skip


def parts(traffic: Traffic, count: float) -> np.ndarray:
    """Part of each record, if all bytes are divided into ``count`` equal parts."""
    moved = np.cumsum(traffic.size) - traffic.size
    return (moved / traffic.size.sum() * count + 1e-6).astype(np.int32)


@pytest.mark.parametrize(("joined", "headers"), [(0.0, 0.0), (0.1, 0.0), (0.1, 0.001)])
def test_a_step_has_the_least_bytes_after_which_records_begin_again(joined, headers):
    repeats = RepeatedBytes(fsdp(joined, headers))
    assert repeats.shows()
    assert 1 / repeats.least() == pytest.approx(STEPS, rel=0.01)


@pytest.mark.parametrize("count", [STEPS, STEPS / 2, STEPS / 3])
def test_one_two_and_three_steps_are_not_denied(count):
    traffic = fsdp()
    assert not RepeatedBytes(traffic).denies(parts(traffic, count), evaluated=False)


@pytest.mark.parametrize("count", [2 * STEPS, 1.3 * STEPS, 0.7 * STEPS])
def test_other_parts_are_denied(count):
    traffic = fsdp()
    assert RepeatedBytes(traffic).denies(parts(traffic, count), evaluated=False)


def test_one_size_shows_and_denies_nothing():
    traffic = fsdp()
    alike = Traffic(**{**vars(traffic), "size": np.full(len(traffic), 1_000_000)})
    repeats = RepeatedBytes(alike)
    assert not repeats.shows()
    assert not repeats.denies(parts(alike, 0.7 * STEPS), evaluated=False)


def test_nothing_is_denied_where_records_are_lost():
    traffic = fsdp()
    kept = np.random.default_rng(5).random(len(traffic)) >= 0.05
    lossy = Traffic(*(column[kept] for column in vars(traffic).values()))
    assert not RepeatedBytes(lossy).denies(parts(lossy, 2 * STEPS), evaluated=False)


@pytest.mark.parametrize("seed", range(5))
def test_sizes_in_no_order_repeat_at_no_distance(seed):
    traffic = fsdp()
    size = np.random.default_rng(seed).permutation(traffic.size)
    mixed = Traffic(**{**vars(traffic), "size": size})
    assert not RepeatedBytes(mixed).shows()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("joined", [0.0, 0.05])
def test_steps_are_found_where_neither_silences_nor_times_show_them(joined, seed):
    """Silences between layers are as long as those between steps, and steps last unequally."""
    traffic = fsdp(joined, seed=seed)
    one = TrafficClass(np.arange(2), True, traffic)
    assert find_steps(Component(np.arange(2, dtype=np.int32), (one,))).count == STEPS


def test_the_records_of_a_connection_are_compared_once(monkeypatch):
    """Divisions are denied by these figures, and steps of equal times are found by them."""
    compared, correlated = [], repeated_bytes._correlated

    def counted(begins, near):
        compared.append(begins)
        return correlated(begins, near)

    monkeypatch.setattr(repeated_bytes, "_correlated", counted)
    one = TrafficClass(np.arange(2), True, fsdp())
    assert find_steps(Component(np.arange(2, dtype=np.int32), (one,))).count == STEPS
    assert len(compared) == 2  # one for each direction
