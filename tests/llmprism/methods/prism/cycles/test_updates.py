"""Parts that reduce gradients and then gather parameters hold an update, so they are steps."""

from __future__ import annotations

import numpy as np
import pytest

from equal_parts import parts_of
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.cycles.updates import holds_updates

STEPS = 6
PARAMETERS = [60, 10, 10, 10, 10, 40]  # bytes of embedding, layers and head


def traffic_of(step: list[int]) -> Traffic:
    size = np.array(step * STEPS)
    start = np.arange(size.size) * 1000
    one = np.zeros(size.size, np.int32)
    return Traffic(np.arange(size.size), start, start + 900, size, one, np.ones_like(one, bool))


@pytest.mark.parametrize("micro_batches", [1, 2, 5, 8])
def test_gradients_may_be_reduced_in_every_micro_batch(micro_batches):
    gradients = [2 * size for size in PARAMETERS[::-1]]
    traffic = traffic_of(gradients * micro_batches + PARAMETERS)
    assert holds_updates(traffic, parts_of(traffic, STEPS))


@pytest.mark.parametrize("micro_batches", [1, 2, 5])
def test_a_last_message_of_another_size_is_no_gather(micro_batches):
    """As much moves last as parameters would have, but not half of what a gradient has."""
    gradients = [20] * 8
    traffic = traffic_of(gradients * micro_batches + [80])
    assert not holds_updates(traffic, parts_of(traffic, STEPS))


def test_gathers_in_both_passes_are_not_all_after_the_gradients():
    gradients = [2 * size for size in PARAMETERS[::-1]]
    mixed = [size for pair in zip(PARAMETERS[::-1], gradients, strict=True) for size in pair]
    traffic = traffic_of(PARAMETERS + mixed)
    assert not holds_updates(traffic, parts_of(traffic, STEPS))
