"""Parts of which every k-th precedes a longer silence: pieces of a step, or steps and pauses."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from equal_parts import parts_of
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.steps.coarser import are_pieces
from llmprism.methods.prism.steps.proposals import Proposals

STEPS, RANKS = 8, 4
MESSAGE_NS, BYTES = 1_000_000, 1000


def show_pieces(
    every: int,
    messages: int,
    rest_ns: int,
    longer_ns: int,
    concurrency: float = 1.0,
    steps: int = STEPS,
) -> bool:
    """Whether parts of so many messages are pieces of a step, of which the last rest is longer."""
    count = steps * every
    ends = np.arange(count) % every == every - 1
    part_ns = messages * MESSAGE_NS + rest_ns + np.where(ends, longer_ns, 0)
    begins = np.concatenate(([0], np.cumsum(part_ns)[:-1]))
    start = (begins[:, None] + np.arange(messages) * MESSAGE_NS).ravel().repeat(RANKS)
    couple, size = np.tile(np.arange(RANKS), count * messages), np.full(start.size, BYTES)
    rows, forth = np.arange(start.size), np.ones(start.size, np.bool_)
    traffic = Traffic(rows, start, start + MESSAGE_NS, size, couple, forth)
    fine, coarse = parts_of(traffic, count), parts_of(traffic, steps)
    coarse = replace(coarse, clarity=(rest_ns + longer_ns) / rest_ns)
    one = SimpleNamespace(traffic=traffic, connections=np.zeros(RANKS), bytes=1.0)
    one.concurrency = concurrency
    classes: Any = (one,)
    return are_pieces(Proposals(classes, [[fine, coarse]]), count, steps)


@pytest.mark.parametrize("every", [3, 5, 7])
def test_single_collectives_are_buckets_if_a_forward_pass_lies_between_two_steps(every):
    """Backward passes reduce buckets at equal distances, and take two to three forward passes."""
    bucket_ns = 2 * MESSAGE_NS
    assert show_pieces(every, 1, MESSAGE_NS, every * bucket_ns // 2)
    assert show_pieces(every, 1, MESSAGE_NS, every * bucket_ns // 3)
    assert not show_pieces(every, 1, MESSAGE_NS, every * bucket_ns // 4)


@pytest.mark.parametrize("every", [7, 105])
def test_micro_batches_of_a_pipeline_leave_no_time_for_a_forward_pass(every):
    """Between two steps a pipeline empties and fills again, however many micro-batches it has."""
    assert show_pieces(every, 1, MESSAGE_NS, 3 * MESSAGE_NS, concurrency=0.2)
    assert not show_pieces(every, 1, MESSAGE_NS, 3 * MESSAGE_NS)


@pytest.mark.parametrize(
    ("every", "longer_ns", "pieces"),
    [(7, 900_000, True), (7, 1_500_000, False), (4, 1_500_000, True), (4, 2_500_000, False)],
)
def test_what_makes_silences_hardly_longer_is_an_update(every, longer_ns, pieces):
    """After every seventh part it is a pause, if it takes more than a tenth of a part."""
    assert show_pieces(every, 8, 2_000_000, longer_ns) == pieces


@pytest.mark.parametrize(("steps", "pieces"), [(4, False), (5, True)])
def test_every_second_silence_of_a_few_may_be_longer_by_chance(steps, pieces):
    """So are the 3 longest of 7 in one of 35 recordings, and the 4 longest of 9 in one of 126."""
    assert show_pieces(2, 8, 2_000_000, 900_000, steps=steps) == pieces
