"""Gathers of parameters that a silence parts from gradients, after the passes."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.timeline.parted_gathers import _reductions


@pytest.mark.parametrize(
    ("share", "often"), [(1 / 2, 1), (2 / 3, 1), (8 / 9, 8), (16 / 17, 8), (0.6, 0), (1, 0)]
)
def test_gradients_before_gathers_have_a_share_of_the_bytes(share, often):
    assert _reductions(np.array([share]), 8).tolist() == [often]
