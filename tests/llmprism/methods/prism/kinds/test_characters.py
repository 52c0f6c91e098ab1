"""Who waits for whom: exchanges among two ranks are no pipelines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.methods.prism.kinds.begins import shares_begun
from llmprism.methods.prism.kinds.characters import Character
from llmprism.methods.prism.kinds.outstanding import share_outstanding
from llmprism.methods.prism.records.traffic import Traffic

MS = 1_000_000
STEPS, EXCHANGES, BYTES = 12, 4, 1000


def test_what_is_sent_before_training_begins_is_not_outstanding_in_it():
    """Ranks exchange equal messages; in the first step one has sent parameters, long before."""
    starts = np.arange(STEPS * EXCHANGES) * 10 * MS + 5_000 * MS
    start = np.concatenate(([0], np.repeat(starts, 2)))
    size = np.full(start.size, BYTES)
    forth = np.concatenate(([True], np.tile([True, False], starts.size)))
    step = np.concatenate(([0], np.repeat(np.arange(STEPS), 2 * EXCHANGES)))
    one = np.zeros(start.size, np.int32)
    traffic = Traffic(np.arange(start.size), start, start + MS, size, one, forth)
    assert share_outstanding(traffic, step) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("leads", "other_leads", "expected"),
    [
        (0.11, 0.22, False),  # of a third and two ninths of the steps, one or the other begins
        (0.35, 0.12, True),  # mostly the same
        (0.0, 0.04, True),  # neither shows, but once
    ],
)
def test_nobody_waits_where_either_direction_begins(leads, other_leads, expected):
    none = np.empty(0)
    one = Character(
        outstanding=0.56, ahead=0.14, together=0.64, leads=0.0, other_leads=0.0, answered=0.06,
        dense=False, at_once=False, rest=0.5, messages=2.0, alike=False, first_ns=none,
        last_ns=none, groups=(), pairs=frozenset(),
    )  # fmt: skip
    assert replace(one, leads=leads, other_leads=other_leads).is_pipeline == expected


@pytest.mark.parametrize(("both_end", "expected"), [(False, True), (True, False)])
def test_a_pipeline_answers_also_where_records_hold_all_messages(both_end, expected):
    """One record each way in a step: one direction begins first, and may end first as well.

    The last activation is answered by a gradient as the first one is. In an exchange one rank may
    have its gradients first, but both end together.
    """
    begins = np.arange(STEPS) * (100 * MS + 1)  # a clock of nanoseconds
    start = np.stack((begins, begins + 4 * MS), axis=1).ravel()
    end = np.stack((begins + (40 if both_end else 36) * MS, begins + 40 * MS), axis=1).ravel()
    step, one = np.repeat(np.arange(STEPS), 2), np.zeros(2 * STEPS, np.int32)
    size, forth = np.full(2 * STEPS, BYTES), np.tile([True, False], STEPS)
    traffic = Traffic(np.arange(2 * STEPS), start, end, size, one, forth)
    leads, other_leads, answered = shares_begun(traffic, step, STEPS)
    none = np.empty(0)
    character = Character(
        outstanding=0.0, ahead=0.0, together=1.0, leads=leads, other_leads=other_leads,
        answered=answered, dense=False, at_once=False, rest=0.6, messages=1.0,
        alike=False, first_ns=none,
        last_ns=none, groups=(), pairs=frozenset(),
    )  # fmt: skip
    assert leads == 1.0
    assert character.is_pipeline == expected
