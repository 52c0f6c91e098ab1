"""The steps of a component: how many, and how sure they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.steps.stepping import find_steps
from rings import ring


@pytest.mark.parametrize("lost", [0.0, 0.02])
@pytest.mark.parametrize("every", [3, 5, 7])
def test_pauses_after_some_steps_do_not_join_them(every, lost):
    messages, begin = [], 0.0
    for step in range(28):
        messages += [begin + 60, begin + 70, begin + 80]
        begin += 100 + (120 if step % every == every - 1 else 0)
    assert find_steps(ring(messages, lost)).count == 28


@pytest.mark.parametrize("members", [2, 4])
def test_a_last_step_without_gathers_leaves_one_half_fewer(members):
    """Gradients move while they are computed, and parameters at once in the next step."""
    messages, begin = [], 0.0
    for _ in range(12):
        messages += [begin + 4 * i for i in range(10)] + [begin + 50 + i for i in range(10)]
        begin += 90
    assert find_steps(ring(messages[:-10], members=members)).count == 12


@pytest.mark.parametrize("lacks", [0, 10])
def test_halves_that_take_as_long_may_be_steps_and_pauses(lacks):
    """Every second silence is longer, also if the last step has no second half."""
    messages, begin = [], 0.0
    for part in range(24):
        messages += [begin + i for i in range(10)]
        begin += 10 + (4 if part % 2 == 0 else 60)
    found = find_steps(ring(messages[: len(messages) - lacks]))
    assert found.quality <= 0.5


def sized(parts: list[tuple[list[int], float]]) -> Component:
    """Messages of the sizes in each part, 1 ms each, and a rest after each part [ms]."""
    messages, begin = [], 0.0
    for sizes, rest_ms in parts:
        messages += [begin + i for i in range(len(sizes))]
        begin += len(sizes) + rest_ms
    own = ring(messages).classes[0]
    size = np.repeat(np.concatenate([sizes for sizes, _ in parts]), own.connections.size)
    one = replace(own, traffic=replace(own.traffic, size=size))
    return Component(np.arange(own.connections.size, dtype=np.int32), (one,))


def test_gathers_move_in_another_order_than_reductions():
    """Steps of two micro-batches that reduce gradients, and are too few for silences to tell."""
    reduce = [300, *[100] * 6, 320]
    found = find_steps(sized([(reduce, 9.0), (reduce, 4.0), (reduce[::-1], 5.0)] * 4))
    assert found.count == 4
    assert found.quality > 0.9


@pytest.mark.parametrize("micro_batches", [1, 2, 3])
@pytest.mark.parametrize("late_ms", [0.0, 0.5])
def test_two_ranks_gather_in_another_order_at_the_same_time(micro_batches, late_ms):
    """If one direction of a couple waits for the other one, evaluations may have that order."""
    reduce = [300, *[100] * 6, 320]
    step = [(reduce, 5.0)] * micro_batches + [(reduce[::-1], 5.0)]
    own = sized(step * 2).classes[0].traffic
    pair = own.couple < 2
    forth, size = own.couple[pair] == 0, own.size[pair]
    start_ns = own.start_ns[pair] + np.where(forth, 0, int(late_ms * 1_000_000))
    order = np.argsort(start_ns, kind="stable")
    start_ns, couple = start_ns[order], np.zeros(order.size, np.int32)
    end_ns = start_ns + 400_000
    traffic = Traffic(own.row[: order.size], start_ns, end_ns, size[order], couple, forth[order])
    one = TrafficClass(np.arange(2), True, traffic)
    found = find_steps(Component(np.arange(2, dtype=np.int32), (one,)))
    assert found.count == (2 * (micro_batches + 1) if late_ms else 2)


@pytest.mark.parametrize(("share", "sure"), [(1, True), (3, False)])
def test_parts_that_hold_updates_are_steps_whatever_pauses_come_between(share, sure):
    """Parameters have half the bytes of gradients; what is a third of them is something else."""
    gradients, parameters = [300 * share, *[120 * share] * 6], [60] * 6 + [150]
    steps = [(gradients + parameters, 40.0 if i % 3 == 2 else 15.0) for i in range(24)]
    found = find_steps(sized(steps))
    assert (found.count, found.quality > 0.5) == (24, sure)


@pytest.mark.parametrize("micro_batches", [2, 4])
def test_gradients_of_micro_batches_are_one_step(micro_batches):
    """Each is a single collective: the parts between the long gaps are the steps."""
    messages, begin = [], 0.0
    for _ in range(20):
        messages += [begin + 20 * i for i in range(micro_batches)]
        begin += 20 * micro_batches + 60
    assert find_steps(ring(messages)).count == 20


@pytest.mark.parametrize("longer", [1, 2])
def test_gaps_that_only_rounding_makes_longer_do_not_join_steps(longer):
    """One message a step, times in whole ms; every other gap is longer by a tick or two."""
    messages = np.cumsum([130 + longer * ((step + 1) % 2) for step in range(10)])
    assert find_steps(ring(messages.astype(float).tolist())).count == 10


@pytest.mark.parametrize(("every", "sure"), [(3, False), (100, True)])
def test_longer_silences_at_equal_distances_are_updates_or_pauses(every, sure):
    messages, begin = [], 0.0
    for step in range(24):
        messages += [begin + 60, begin + 70, begin + 80]
        begin += 100 + (120 if step % every == every - 1 else 0)
    found = find_steps(ring(messages))
    assert (found.count, found.quality > 0.5) == (24, sure)
