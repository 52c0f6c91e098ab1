"""Traffic that meets in a member is a reduction; a stage in the middle passes something on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.kinds.begins import couples_begun
from llmprism.methods.prism.kinds.members import reduced_at_member
from llmprism.methods.prism.records.traffic import Traffic

STEPS, STEP_NS = 8, 1000
FIRST, MIDDLE, LAST = 3, 7, 5
LINE = [(FIRST, MIDDLE), (MIDDLE, LAST), (LAST, MIDDLE), (MIDDLE, FIRST)]
"""Activations go to the last stage, and gradients back."""
GUEST = [(FIRST, MIDDLE), (LAST, MIDDLE), (MIDDLE, LAST), (MIDDLE, FIRST)]
"""Of three ranks, one leaves its gradients to another one, which exchanges with the third."""


def begun(messages):
    """Who begins with whom, where the ``messages`` of a step follow each other."""
    pairs = sorted(set(messages))
    src, dst = (np.array(ends) for ends in zip(*messages, strict=True))
    forth = src < dst
    couples = sorted({tuple(sorted(pair)) for pair in messages})
    couple = np.array([couples.index(tuple(sorted(pair))) for pair in messages])
    start = np.add.outer(np.arange(STEPS) * STEP_NS, np.arange(len(messages)) * 100).ravel()
    traffic = Traffic(
        np.arange(start.size), start, start + 90, np.full(start.size, 10),
        np.tile(couple, STEPS), np.tile(forth, STEPS),
    )  # fmt: skip
    connections: Any = SimpleNamespace(
        src=np.array([a for a, _ in pairs]), dst=np.array([b for _, b in pairs]),
        of_row=np.tile([pairs.index(pair) for pair in messages], STEPS),
    )  # fmt: skip
    return couples_begun(connections, traffic, np.repeat(np.arange(STEPS), len(messages)), STEPS)


@pytest.mark.parametrize(("messages", "meets"), [(LINE, False), (GUEST, True)])
def test_a_member_that_all_partners_send_to_first_is_no_stage(messages, meets):
    one: Any = SimpleNamespace(begun=begun(messages), groups=(frozenset({FIRST, MIDDLE, LAST}),))
    other: Any = SimpleNamespace(begun=((1, 2, 1.0),), groups=(frozenset({1, 2}),))
    assert reduced_at_member([one, other], {0, 1}) == ({0} if meets else set())


@pytest.mark.parametrize(
    ("shares", "meets"),
    [
        ((1.0, 0.0), True),  # merged records show only that one begins
        ((0.5, 0.0), False),  # nothing is clear
        ((1.0, -0.5), False),  # the middle one begins with the last one in most steps
    ],
)
def test_records_that_show_who_begins_in_some_steps(shares, meets):
    couples = ((FIRST, MIDDLE, shares[0]), (LAST, MIDDLE, shares[1]))
    one: Any = SimpleNamespace(begun=couples, groups=(frozenset({FIRST, MIDDLE, LAST}),))
    assert reduced_at_member([one], {0}) == ({0} if meets else set())
