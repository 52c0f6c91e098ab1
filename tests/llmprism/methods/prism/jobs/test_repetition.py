"""How often traffic moves in a step."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.jobs.repetition import _times_active


@pytest.mark.parametrize(
    ("steps", "active", "times"),
    [(192, [*range(90, 107), *range(175, 192)], 2), (7, [3], 1), (20, [4, 9, 14, 19], 4)],
)
def test_gradients_that_move_in_several_parts_of_a_step_move_once(steps, active, times):
    volume = np.zeros(steps)
    volume[active] = 1.0
    assert _times_active(volume) == times
