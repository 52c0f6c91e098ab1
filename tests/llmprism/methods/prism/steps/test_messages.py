"""Equal parts are steps if they hold the same messages, joined to records in one way or another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.steps.messages import same_messages, several_collectives

UNCLEAR = 1.2  # the shortest silence that cuts over the longest that does not


def traffic_of(parts, ways=2):
    """Traffic of the same records in several connections, and its division into ``parts``."""
    sizes = [size for part in parts for size in part for _ in range(ways)]
    count = len(sizes)
    start_ns = np.arange(count, dtype=np.int64) * 1000
    couple = np.tile(np.arange(ways, dtype=np.int32), count // ways)
    traffic = Traffic(np.arange(count, dtype=np.int32), start_ns, start_ns + 500,
                      np.array(sizes, np.int64), couple, np.ones(count, np.bool_))  # fmt: skip
    cuts = np.cumsum([ways * len(part) for part in parts])[:-1]
    volumes = np.array([ways * sum(part) for part in parts], np.float64)
    one = TrafficClass(np.arange(ways), two_way=False, traffic=traffic)
    return one, Division(cuts, volumes, 0.01, 1.0, 1.0, UNCLEAR)


JOINED, IN_TWO = [1000], [550, 450]


def test_slow_steps_may_have_two_records_where_others_have_one():
    """A slow rank makes the silence between two buckets longer than the exporter bridges."""
    assert same_messages(*traffic_of([JOINED] * 16 + [IN_TWO] * 8))


@pytest.mark.parametrize("other", [[450, 550], [300, 700], [200, 300, 500]])
def test_messages_that_end_elsewhere_are_others(other):
    assert not same_messages(*traffic_of([JOINED] * 8 + [IN_TWO] * 8 + [other] * 8))


def test_parts_that_are_equal_by_about_a_tenth_only_hold_other_messages():
    one, division = traffic_of([JOINED] * 16 + [[600, 500]] * 8)
    rough = Division(division.cuts, division.volumes, 0.1, 1.0, 1.0, UNCLEAR)
    assert not same_messages(one, rough)


RESTS = [[50, 550], [250, 350], [150, 450], [300, 300], [450, 150], [550, 50], [350, 250]]


def cut_anywhere(parts: int, largest: list[int]) -> list[list[int]]:
    """Parts with the same messages, and the rest of their bytes cut elsewhere in each."""
    return [[*largest, *RESTS[number % len(RESTS)]] for number in range(parts)]


@pytest.mark.parametrize(
    ("parts", "largest", "same"), [(21, [280], True), (7, [280], False), (21, [], False)]
)
def test_many_equal_parts_are_steps_if_a_good_part_of_their_messages_recurs(parts, largest, same):
    """Where ranks wait for a slow one, silences cut the other messages anywhere."""
    assert same_messages(*traffic_of(cut_anywhere(parts, largest))) == same


def test_buckets_of_several_sizes_are_no_steps_though_some_are_cut_in_two():
    """A rank that is late receives the first piece of a bucket before the others begin."""
    whole = [[size] * 4 for size in (1000, 1100, 1200)] * 8
    cut = [[100, own[0] - 100, *own[1:]] if i in (3, 15) else own for i, own in enumerate(whole)]
    for parts in (whole, cut):
        one, division = traffic_of(parts, ways=1)
        assert several_collectives(replace(one, connections=np.arange(4)), division)
