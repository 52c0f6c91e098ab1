"""Gathers of parameters that a silence parts from gradients, after the passes."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.timeline.parted_gathers import _lost, _reductions


@pytest.mark.parametrize(
    ("share", "often"), [(1 / 2, 1), (2 / 3, 1), (8 / 9, 8), (16 / 17, 8), (0.6, 0), (1, 0)]
)
def test_gradients_before_gathers_have_a_share_of_the_bytes(share, often):
    assert _reductions(np.array([share]), 8).tolist() == [often]


def test_lost_records_move_the_share_of_gradients_by_no_more_than_they_have():
    """Two connections of three steps; a gather of 8 % is lost in one of them."""
    lost = _lost(np.array([100.0, 92.0, 100.0, 50.0, 50.0, 50.0]), 3)
    assert lost == pytest.approx([0, 0.08, 0, 0, 0, 0])
    share = np.array([2 / 3, 2 / 3 / 0.92])
    assert _reductions(share, 8).tolist() == [1, 0]
    assert _reductions(share, 8, 0.005 + lost[:2]).tolist() == [1, 1]
    assert _reductions(np.array([0.74, 0.76]), 4, 0.1).tolist() == [4, 4]  # 4/5 is nearer than 2/3
