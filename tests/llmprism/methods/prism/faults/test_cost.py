"""A slow stretch is believed if its steps are longer by a share and by more than they vary."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.cost import cost_of

STEP_NS = 30e9


def believed(longer: float, slow: int, varies: float, seed: int = 1) -> bool:
    """The verdict on ``slow`` steps in the middle of 60 that vary by a share."""
    steps = STEP_NS * (1 + varies * np.random.default_rng(seed).standard_normal(60))
    first = 30 - slow // 2
    steps[first : first + slow] += longer * STEP_NS
    job = SimpleNamespace(duration_ns=steps)
    return cost_of(job, first, first + slow - 1).believed  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("longer", "slow", "varies", "expected"),
    [
        (0.02, 3, 0.002, True),
        (0.02, 3, 0.05, False),  # less than the steps vary
        (0.009, 20, 0.002, True),  # small, but in many steps
        (0.009, 3, 0.002, False),  # small, and in few
        (0.003, 20, 0.006, False),  # small, and not far beyond what the steps vary
        (0.001, 20, 0.0001, False),  # too small to matter
    ],
)
def test_a_small_loss_needs_many_steps(
    longer: float, slow: int, varies: float, expected: bool, seed: int
) -> None:
    assert believed(longer, slow, varies, seed) == expected


def test_steps_that_are_no_longer_cost_nothing() -> None:
    assert not any(believed(0.0, 20, 0.002, seed) for seed in range(50))
