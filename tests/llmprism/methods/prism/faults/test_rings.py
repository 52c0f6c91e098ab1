"""What the hops of a ring lack in a step."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.faults.rings import _left_out

HOPS, STEPS = 6, 28


@pytest.mark.parametrize("seed", range(20))
def test_bytes_that_vary_because_telemetry_samples_are_no_lack(seed: int) -> None:
    total = 7e8 * (1 + 0.03 * np.random.default_rng(seed).standard_normal((HOPS, STEPS)))
    assert (_left_out(total) > 0).mean() < 0.05


def test_what_a_hop_sent_too_little_of_to_be_taken_for_data_is_lacking() -> None:
    total = np.full((HOPS, STEPS), 7e8)
    total[2, 9::2] -= 1e7  # in every second step, as by a rank that pauses
    lacking = _left_out(total)
    assert (lacking[2, 9::2] == 1e7).all()
    assert lacking.sum() == lacking[2, 9::2].sum()
