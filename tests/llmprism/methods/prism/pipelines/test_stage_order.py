"""Which stage each endpoint of a pipeline is in."""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.pipelines.pipelines import _stages

REPLICA, PARTED = [0, 0, 0, 0], [1, 1, 2, 2]  # numbers of pipelines: servers hide a hop of one
SENT_MS = [3, 6, 9, 30, 3, 50, 9, 30]  # the last stage first sends a gradient, and so does a part


def test_parts_of_a_pipeline_are_in_the_stages_of_their_groups():
    number, group = np.array(REPLICA + PARTED), np.array([0, 1, 2, 3] * 2)
    sent = np.repeat(np.array(SENT_MS, np.float64)[:, None], 5, axis=1)
    assert _stages(number, sent, group).tolist() == [0, 1, 2, 3] * 2


def test_parts_without_groups_keep_their_order():
    number, group = np.array(REPLICA + PARTED), np.full(8, -1)
    sent = np.repeat(np.array(SENT_MS, np.float64)[:, None], 5, axis=1)
    assert _stages(number, sent, group).tolist() == [0, 1, 2, 3, 0, 1, 0, 1]
