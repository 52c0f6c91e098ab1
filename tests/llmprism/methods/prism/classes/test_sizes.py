"""Sizes of messages that show gathers and reductions of shards, also where some were cut."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.classes.sizes import gathers_shards
from llmprism.methods.prism.records.traffic import Traffic

STEPS = 9
STEP_BYTES = [300, 200, 200, 300, 400, 600]  # gathered in both passes, and reduced


@dataclass
class OneConnection:
    """What of all connections is looked at: the one of each record."""

    of_row: np.ndarray = field(default_factory=lambda: np.zeros(1000, np.int64))


def shards(cut_in: set[int], parts: tuple[int, int]) -> tuple[TrafficClass, np.ndarray]:
    """Traffic of one connection; its first message has two parts in some of the steps."""
    size, step = [], []
    for at in range(STEPS):
        own = [*parts, *STEP_BYTES[1:]] if at in cut_in else STEP_BYTES
        size += own
        step += [at] * len(own)
    start = np.arange(len(size)) * 1000
    zeros = np.zeros(len(size), np.int32)
    traffic = Traffic(np.arange(len(size)), start, start + 900, np.array(size), zeros, zeros == 0)
    return TrafficClass(np.zeros(1, np.int64), False, traffic), np.array(step)


@pytest.mark.parametrize(
    ("cut_in", "parts", "shown"),
    [
        (set(), (100, 200), True),
        ({3, 4}, (101, 199), True),
        ({3, 4}, (150, 150), True),
        ({3, 4}, (150, 140), False),
    ],
)
def test_a_message_that_was_cut_in_two_counts_as_one(cut_in, parts, shown):
    one, step = shards(cut_in, parts)
    assert gathers_shards(OneConnection(), one, step, STEPS) == shown


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ([300, 200, 600, 400], True),
        ([600, 400, 600, 400, 300, 200], True),
        ([300, 300, 300, 600, 600, 600], False),
        ([300, 200, 600, 700], False),
    ],
)
def test_shards_that_are_gathered_once_have_doubles_of_several_sizes(sizes, shown):
    """Keys and values of each layer have a double, too: their gradients. All are of one size."""
    size = np.tile(np.array(sizes), STEPS)
    start, zeros = np.arange(size.size) * 1000, np.zeros(size.size, np.int32)
    traffic = Traffic(np.arange(size.size), start, start + 900, size, zeros, zeros == 0)
    step = np.repeat(np.arange(STEPS), len(sizes))
    one = TrafficClass(np.zeros(1, np.int64), False, traffic)
    assert gathers_shards(OneConnection(), one, step, STEPS) == shown


@pytest.mark.parametrize(("reduced", "shown"), [(1, True), (2, False)])
def test_shards_show_where_a_few_records_of_every_step_are_lost(reduced, shown):
    """Sixteen layers are gathered twice and reduced once, or sent forth and back, as in a ring."""
    rng = np.random.default_rng(5)
    size, step = [], []
    for at in range(STEPS):
        own = [300, *[200] * 32, 300, *[400] * (16 * reduced), *[600] * reduced]
        kept = rng.random(len(own)) >= 0.05
        kept[-1] = True
        size += np.array(own)[kept].tolist()
        step += [at] * int(kept.sum())
    start = np.arange(len(size)) * 1000
    zeros = np.zeros(len(size), np.int32)
    traffic = Traffic(np.arange(len(size)), start, start + 900, np.array(size), zeros, zeros == 0)
    one = TrafficClass(np.zeros(1, np.int64), False, traffic)
    assert gathers_shards(OneConnection(), one, np.array(step), STEPS) == shown
