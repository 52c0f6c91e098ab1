"""A rank that is late in some of several unlike steps is not slow."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.faults.suspects.suspects import Suspect

LATE_RANKS = importlib.import_module("llmprism.methods.prism.faults.causes.late_ranks")

STEPS = 28
STEP_NS = 100e6
ALIKE = [0.2] * 8
UNLIKE = [0.21, 0.08, 0.2, 0.22, 0.11, 0.27, 0.13, 0.11]


@pytest.mark.parametrize(
    ("longer", "late_in", "by_chance"),
    [
        (UNLIKE, [1, 3, 5], True),  # 0.57 of 1.33 steps
        (UNLIKE, [0, 1, 2, 3, 4, 5, 7], False),  # 1.2 of 1.33 steps
        (ALIKE, [1, 3, 5], False),  # others are late in none of these steps either
    ],
)
def test_of_unlike_steps_a_slow_rank_explains_most(longer, late_in, by_chance):
    """Steps 12 to 19 are ``longer``; the rank is late by as much in some of them."""
    steps_ns = STEP_NS * (1 + 0.002 * np.random.default_rng(5).standard_normal(STEPS))
    steps_ns[12:20] += STEP_NS * np.array(longer)
    job = SimpleNamespace(
        between_ends_ns=steps_ns, duration_ns=steps_ns, count=STEPS, tick_ns=0.0,
        period_ns=STEP_NS, phases=SimpleNamespace(endpoints=np.array([4, 7])),
    )  # fmt: skip
    late = np.zeros((2, STEPS))
    late[1, 12 + np.array(late_in)] = np.array(longer)[late_in]
    context = SimpleNamespace(topology=SimpleNamespace(codes={"a": 7}))
    one = Suspect(
        job, "rank", "late_to_collectives", "slow_gpu", "address", "a", 13, 17, 0.1, 0.9,
        {"one_of": ["a"]},
    )  # fmt: skip
    assert LATE_RANKS._by_chance(context, job, one, late) is by_chance
