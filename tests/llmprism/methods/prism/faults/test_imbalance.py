"""Work that is unevenly divided: ranks are late in turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.imbalance import _by_lateness

RANKS, STEPS = 6, 28


def extents(lost: Any) -> list[tuple[int, int]]:
    job: Any = SimpleNamespace(name="job-0")
    return [(one.first, one.last) for one in _by_lateness(job, lost, "length_imbalance")]


@pytest.mark.parametrize("seed", range(5))
def test_two_long_steps_are_no_imbalance_though_one_is_between_them(seed):
    lost = 0.005 * np.abs(np.random.default_rng(seed).standard_normal((RANKS, STEPS)))
    lost[1, 6] = lost[4, 8] = 0.2
    assert extents(lost) == []


@pytest.mark.parametrize("seed", range(5))
def test_ranks_that_are_late_in_turns_are(seed):
    lost = 0.005 * np.abs(np.random.default_rng(seed).standard_normal((RANKS, STEPS)))
    for number, step in enumerate(range(8, 16)):
        lost[(2 * number) % 5, step] = 0.2
    assert extents(lost) == [(8, 15)]
