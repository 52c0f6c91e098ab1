"""Steps by equal times of equal bytes: parts that end with silences, or several of them."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.cycles.cycles import Division
from llmprism.methods.prism.steps.equal_times import EqualTimes, _Line

MESSAGES = 40  # of a part


def found(updates_ms: np.ndarray, several: int) -> tuple[EqualTimes, Division]:
    """Equal times that are ``several`` parts long, beside parts that end with ``updates_ms``.

    Their silences are hardly longer than others: a layer takes as long as an update.
    """
    length = np.ones((updates_ms.size, MESSAGES))
    length[:, -1] += updates_ms
    start_ns = np.append(0.0, np.cumsum(length)[:-1]) * 1e6
    line = _Line(np.arange(start_ns.size, dtype=np.float64), start_ns, float(start_ns.size))
    step_of = (np.arange(start_ns.size) // (several * MESSAGES)).astype(np.int32)
    cuts = MESSAGES * np.arange(1, updates_ms.size)
    parts = Division(cuts, np.full(updates_ms.size, float(MESSAGES)), 0.01, 1.0, 1.0, 1.01)
    return EqualTimes(step_of, updates_ms.size / several, line), parts


@pytest.mark.parametrize("seed", range(10))
def test_two_steps_that_vary_as_little_by_chance_are_no_step(seed):
    updates_ms = np.random.default_rng(seed).uniform(3.5, 6, 10)
    times, parts = found(updates_ms, several=2)
    assert times.are_several(parts)


@pytest.mark.parametrize("seed", range(10))
def test_micro_batches_vary_by_an_update(seed):
    updates_ms = np.random.default_rng(seed).uniform(3.5, 6, 20)
    updates_ms[::2] = 0
    times, parts = found(updates_ms, several=2)
    assert not times.are_several(parts)
