"""A suspect is believed if it lost a good part of what the steps of its job are longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.suspects.suspects import Suspect

STEP_NS = 100e6
STEPS = 28


def job_with(first: int, longer: float) -> Any:
    """A job whose steps are longer by a share from one step to the end."""
    steps_ns = STEP_NS * (1 + 0.002 * np.random.default_rng(3).standard_normal(STEPS))
    steps_ns[first:] += longer * STEP_NS
    period_ns = float(np.median(steps_ns))
    return SimpleNamespace(
        between_ends_ns=steps_ns, count=STEPS, tick_ns=0.0, period_ns=period_ns
    )  # fmt: skip


@pytest.mark.parametrize("first", [9, 18])
def test_time_lost_and_longer_steps_are_shares_of_the_same_step(first: int) -> None:
    """A link makes steps longer by 2.33 of a step, all of which transfers through it lose.

    That is 0.7 of a slow step, which is the usual one if the link is slow from step 9 on.
    """
    job = job_with(first, 2.33)
    lost = 2.33 * STEP_NS / job.period_ns
    facts = ("network", "slow_transfers", "slow_link", "link", "a|b", first, STEPS - 1, 0.8, 0.5)
    one = Suspect(job, *facts, lost_share=lost)
    assert one.longer_share == pytest.approx(lost, rel=0.01)
    assert one.is_believed
    assert not Suspect(job, *facts, lost_share=0.25 * lost).is_believed
