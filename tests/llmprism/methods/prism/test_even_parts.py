"""Steps of two ranks whose messages follow each other as quickly between steps as inside them."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.classes import Component, TrafficClass
from llmprism.methods.prism.cycles import Traffic
from llmprism.methods.prism.even_parts import even_parts
from llmprism.methods.prism.stepping import find_steps

SIZES = (3700, 1590, 3715, 5290, 3180, 4220)


def traffic_of(sizes: np.ndarray, seed: int = 1) -> Traffic:
    """Messages in a row, with silences of any length between them."""
    rng = np.random.default_rng(seed)
    lasts = sizes * 10
    rests = rng.integers(1_000, 60_000, sizes.size)
    end = np.cumsum(lasts + rests)
    rows = np.arange(sizes.size)
    return Traffic(rows, end - lasts, end, sizes, np.zeros_like(rows), np.ones(rows.size, np.bool_))


def messages(steps: int, seed: int = 1) -> np.ndarray:
    """Sizes of the messages of some steps; some hold two, and headers make them a little longer."""
    rng = np.random.default_rng(seed)
    own = []
    for _ in range(steps):
        sizes = [size * 1000 + int(rng.integers(0, 2000)) for size in SIZES]
        at = int(rng.integers(0, len(SIZES) - 1))
        own += [*sizes[:at], sizes[at] + sizes[at + 1], *sizes[at + 2 :]]
    return np.array(own, np.int64)


@pytest.mark.parametrize("steps", [10, 30])
def test_steps_are_found_without_longer_silences_between_them(steps):
    traffic = traffic_of(messages(steps))
    one = TrafficClass(np.arange(1), False, traffic)
    component = Component(np.arange(2, dtype=np.int32), (one,))
    found = find_steps(component, even=True)
    assert find_steps(component).count == 0
    assert found.count == steps
    assert np.bincount(found.step_of[0]).tolist() == [len(SIZES) - 1] * steps


@pytest.mark.parametrize("seed", range(5))
def test_messages_that_do_not_repeat_have_no_even_parts(seed):
    sizes = np.random.default_rng(seed).integers(1_000_000, 6_000_000, 180)
    assert even_parts(traffic_of(sizes, seed)) is None


def test_a_few_parts_may_be_chance():
    assert even_parts(traffic_of(messages(6))) is None
