"""A few of each drawn attack; continuous integration draws for a minute (``make fuzz``)."""

from __future__ import annotations

import pytest

from evaluation.attacks.fuzzing import attack
from evaluation.attacks.table import SINGLE, Attack
from evaluation.attacks.targets import Target, targets

EXAMPLES = 16


@pytest.mark.parametrize("target", targets(), ids=lambda one: one.name)
def test_what_others_leave_or_damage_breaks_no_promise(target: Target) -> None:
    assert attack(target, 23, EXAMPLES) >= EXAMPLES


@pytest.mark.parametrize(
    "single",
    [pytest.param(one, marks=[pytest.mark.slow] * one.is_large, id=one.name) for one in SINGLE],
)
def test_a_single_attack_does_no_harm(single: Attack) -> None:
    held = list(single.tries())
    assert held
    assert all(held)
