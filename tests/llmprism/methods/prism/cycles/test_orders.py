"""Reductions and gathers of as many bytes: steps repeat the order of messages, not their parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.orders import ends_of_orders

EMBEDDING, LAYER, HEAD = 300, 100, 320  # bytes
REDUCE = [HEAD, *[LAYER] * 6, EMBEDDING]
GATHER = REDUCE[::-1]
MS = 1_000_000


def traffic_of(parts: list[list[int]], rests_ms: list[int]) -> tuple[Traffic, Division]:
    """One message of each size after the other, and a rest of ``rests_ms`` after each part."""
    size = np.concatenate([np.array(part) for part in parts])
    records = [len(part) for part in parts]
    rest = np.zeros(size.size, np.int64)
    rest[np.cumsum(records) - 1] = np.resize(rests_ms, len(parts)) * MS
    start = np.arange(size.size) * MS + np.cumsum(rest) - rest
    one = np.zeros(size.size, np.int32)
    traffic = Traffic(np.arange(size.size), start, start + MS, size, one, np.ones_like(one, bool))
    volumes = np.array([float(sum(part)) for part in parts])
    return traffic, Division(np.cumsum(records)[:-1], volumes, 0.01, 1.0, 1.0, 1.5)


@pytest.mark.parametrize("rests_ms", [[2, 5], [5, 2]])
def test_two_orders_in_turn_make_steps_that_begin_after_the_longer_rest(rests_ms):
    """The last step lacks the gathers: the next one would have begun with them."""
    traffic, parts = traffic_of([REDUCE, GATHER] * 5 + [REDUCE], rests_ms)
    opens = 2 if rests_ms[1] > rests_ms[0] else 1
    assert ends_of_orders(traffic, parts).tolist() == (parts.firsts[opens::2]).tolist()


@pytest.mark.parametrize("micro_batches", [2, 3, 6])
def test_a_step_begins_after_the_part_that_moves_in_the_other_order(micro_batches):
    """... although the rest before the last micro-batch is the longest."""
    step = [REDUCE] * micro_batches + [GATHER]
    rests_ms = [*[4] * (micro_batches - 1), 2, 3]
    traffic, parts = traffic_of((step * 5)[1:-1], rests_ms[1:] + rests_ms[:1])
    every = micro_batches + 1
    assert ends_of_orders(traffic, parts).tolist() == parts.firsts[every - 1 :: every].tolist()


@pytest.mark.parametrize("part", [REDUCE, [LAYER] * 8])
def test_equal_orders_are_those_of_steps(part):
    traffic, parts = traffic_of([part, part[::-1] if part[0] == LAYER else part] * 6, [2, 5])
    assert ends_of_orders(traffic, parts).size == 0


def test_evaluations_and_unequal_parts_say_nothing_about_orders():
    traffic, parts = traffic_of([REDUCE, GATHER] * 5, [2, 5])
    assert ends_of_orders(traffic, parts).size
    assert ends_of_orders(traffic, replace(parts, evaluated=True)).size == 0
    assert ends_of_orders(traffic, replace(parts, tolerance=0.1)).size == 0


def test_orders_that_do_not_return_are_no_parts_of_steps():
    shuffled = [np.random.default_rng(i).permutation(REDUCE).tolist() for i in range(12)]
    assert ends_of_orders(*traffic_of(shuffled, [2])).size == 0


def test_sizes_that_few_parts_have_show_no_order():
    """An exporter that bridges silences joins messages in another way in each part."""
    parts = [[LAYER + i] * 10 for i in range(10)]
    for i in (3, 4, 5, 6):
        joined = [5 * LAYER, *parts[i][5:]]
        parts[i] = joined if i % 2 else joined[::-1]
    assert ends_of_orders(*traffic_of(parts, [2])).size == 0


def test_pieces_of_a_message_with_the_size_of_others_show_no_order():
    """Where a sender waits, an exporter may cut a message into two halves."""
    whole, cut = [400, 300, 500, 200], [200, 200, 300, 500, 200]
    traffic, parts = traffic_of([whole, whole, cut] * 4, [2])
    assert ends_of_orders(traffic, parts).size == 0
