"""Micro-batches of sharded parameters: only the last one of a step ends with an update."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.cycles import seldom_updates
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.cycles.divisions import steps_from
from llmprism.methods.prism.cycles.seldom_updates import may_be_micro_batches
from llmprism.methods.prism.jobs.partial_steps import are_micro_batches
from llmprism.methods.prism.steps.stepping import Part, find_steps
from prism_common.early import INTS

MS = 1_000_000
MEMBERS = 4


def sharded(steps: int, micro_batches: int, update_ms: float, stalls=()) -> Component:
    """Messages of 1 ms that follow at once, but for a rest of 2 ms after the forward pass.

    Every step ends with a silence of ``update_ms``. ``stalls`` are further silences, each with
    the number of the message before it and its length [ms].
    """
    times, now = [], 0.0
    for _ in range(steps):
        for _ in range(micro_batches):
            for message in range(20):
                times.append(now)
                now += 1 + (2 if message == 4 else 0)
                now += sum(ms for at, ms in stalls if at == len(times))
        now += update_ms
    start = np.repeat(np.array(times) * MS, MEMBERS).astype(np.int64)
    rows = np.arange(start.size)
    traffic = Traffic(
        rows, start, start + MS, np.full(rows.size, 1000), rows % MEMBERS,
        np.ones(rows.size, np.bool_),
    )  # fmt: skip
    one = TrafficClass(np.arange(MEMBERS), False, traffic)
    return Component(np.arange(MEMBERS, dtype=np.int32), (one,))


@pytest.mark.parametrize("update_ms", [0.5, 1.5, 5.0])
@pytest.mark.parametrize("micro_batches", [3, 5])
@pytest.mark.parametrize("steps", [4, 7])
def test_silences_at_equal_distances_end_steps(steps, micro_batches, update_ms):
    found = find_steps(sharded(steps, micro_batches, update_ms))
    assert found.count == steps
    assert np.bincount(found.step_of[0]).tolist() == [20 * micro_batches * MEMBERS] * steps


@pytest.mark.parametrize("pause_ms", [80.0, 160.0])
def test_pauses_after_every_third_step_are_longer_than_updates(pause_ms):
    """A state that is saved, for up to 32 times as long as an update takes."""
    pauses = [(20 * 4 * step, pause_ms) for step in (3, 6, 9)]
    found = find_steps(sharded(12, 4, 5.0, stalls=pauses))
    assert found.count == 12


@pytest.mark.parametrize("parts", [1, 4])
def test_ranks_that_begin_one_after_the_other_rest_once(parts):
    """After an update, half of the ranks begin 1.6 ms before the others, in messages of parts."""
    component = sharded(5, 4, 2.5)
    traffic = component.classes[0].traffic
    early = (np.arange(len(traffic)) // MEMBERS % 80 == 0) & (traffic.row % MEMBERS < 2)
    start = traffic.start_ns - np.where(early, 1.6 * MS, 0).astype(np.int64)
    rows = np.repeat(np.arange(len(traffic)), parts)
    one = Traffic(
        np.arange(rows.size), start[rows], start[rows] + MS, traffic.size[rows],
        traffic.couple[rows], traffic.forth[rows],
    )  # fmt: skip
    found = find_steps(
        Component(component.endpoints, (TrafficClass(np.arange(MEMBERS), False, one),))
    )
    assert found.count == 5


def test_rests_that_all_go_on_with_the_one_before_are_no_updates(monkeypatch):
    """The bytes of a step, which take equal times, still show the steps."""
    monkeypatch.setattr(seldom_updates, "_without_parts", lambda *_given: INTS)
    assert find_steps(sharded(5, 4, 2.5)).count == 5


def test_many_steps_have_micro_batches_too():
    """There are more ways to choose some of 1,600 silences than a float can count."""
    found = find_steps(sharded(400, 4, 5.0))
    assert found.count == 400


@pytest.mark.parametrize("micro_batches", [4, 6])
def test_nothing_is_known_about_the_steps_where_one_update_shows(micro_batches):
    component = sharded(2, micro_batches, 5.0)
    stepping = find_steps(component)
    assert are_micro_batches(Part(component, stepping))


@pytest.mark.parametrize("steps", [5, 12])
def test_steps_that_all_end_with_an_update_are_no_micro_batches(steps):
    component = sharded(steps, 1, 5.0, stalls=[(28, 1.0)])
    stepping = find_steps(component)
    assert stepping.count in (steps, steps + 1)
    assert not are_micro_batches(Part(component, stepping))


def test_silences_after_the_first_message_of_some_steps_go_on_with_the_one_before():
    """Ranks that are ready send the first message, and wait for one that is late."""
    component = sharded(13, 1, 4.0, stalls=[(20 * step + 1, 2.0) for step in (3, 6, 9)])
    assert find_steps(component).count == 13


def test_records_of_many_messages_are_no_first_messages():
    """An exporter bridges all silences but those after forward passes, and after updates."""
    size, rest_ms = [1, 4, 4, 4, 3], [3.0, 3.0, 3.0, 3.0, 10.0]
    start, now = [], 0.0
    for _ in range(6):
        for bytes_, ms in zip(size, rest_ms, strict=True):
            start.append(now)
            now += 100 * bytes_ + ms
    begin = np.repeat((np.array(start) * MS).astype(np.int64), 2)
    sizes = np.repeat(np.resize(size, len(start)), 2)
    rows = np.arange(begin.size)
    ends = begin + sizes * 100 * MS
    traffic = Traffic(rows, begin, ends, sizes * 1000, np.zeros_like(rows), rows % 2 == 0)
    one = TrafficClass(np.arange(2), True, traffic)
    assert find_steps(Component(np.arange(2, dtype=np.int32), (one,)), single=True).count == 6


def test_a_silence_as_short_as_those_of_all_parts_is_none_like_a_longer_one():
    """One update shows, and a rank that waited once for less than after every forward pass."""
    component = sharded(2, 6, 6.0, stalls=[(170, 1.9)])
    assert are_micro_batches(Part(component, find_steps(component)))


def test_silences_in_every_second_of_a_few_steps_may_be_chance():
    component = sharded(8, 1, 3.0, stalls=[(48 + 40 * i, 2.0) for i in range(3)])
    assert find_steps(component).count == 8


@pytest.mark.parametrize(("silence_ms", "doubted"), [(3.0, False), (9.0, True)])
def test_silences_that_an_exporter_hardly_shows_may_be_in_other_parts_too(silence_ms, doubted):
    """Other silences last 2 ms; shorter ones are bridged, so those of the other parts may be."""
    at_some = [(20 * part, silence_ms) for part in (1, 2, 5, 8)]
    traffic = sharded(12, 1, 0.0, stalls=at_some).classes[0].traffic
    cuts = MEMBERS * (5 + 20 * np.arange(12))
    assert may_be_micro_batches(traffic, steps_from(traffic, cuts)) == doubted
