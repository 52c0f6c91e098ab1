"""The first activation of a step, where records are lost."""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.pipelines.first_messages import most_of_a_step
from llmprism.methods.prism.pipelines.pipelines import Pipelines

MESSAGE = 1000


def test_a_step_has_all_messages_though_most_steps_of_one_connection_lost_some():
    """Three connections and five steps of four messages; three steps of the first lost one."""
    cell = np.repeat(np.arange(15), 4)
    lost = np.isin(np.arange(60), [0, 5, 10])
    most = most_of_a_step(cell[~lost], np.full(57, MESSAGE), 5, float(MESSAGE))
    assert most == {0: 4500.0, 1: 4500.0, 2: 4500.0}


def test_a_step_has_all_messages_though_most_steps_of_all_connections_lost_some():
    """Two connections and three steps of four messages, of which two lose one."""
    cell = np.repeat(np.arange(6), 4)
    lost = np.isin(np.arange(24), [0, 5, 12, 17])
    arguments = cell[~lost], np.full(20, MESSAGE), 3, float(MESSAGE)
    assert most_of_a_step(*arguments) == {0: 3500.0, 1: 3500.0}
    assert most_of_a_step(*arguments, 4.0 * MESSAGE) == {0: 4500.0, 1: 4500.0}


def test_steps_that_lost_a_message_do_not_show_when_a_rank_began():
    sent = np.array([[4000.0, 4000.0, 3000.0, 4000.0], [8000.0, 8000.0, 8000.0, 6000.0]])
    blank = np.full(sent.shape, np.nan)
    pipelines = Pipelines(
        np.zeros(2, np.int64), np.zeros(2, np.int64), 2, 4, 1, 1.0, 2.0, np.nan,
        blank, blank, blank, blank, 0, 0, messages=4, sent_bytes=sent,
    )  # fmt: skip
    assert pipelines.are_whole.tolist() == [[True, True, False, True], [True, True, True, False]]
