"""The pieces of a stalled transfer are one burst, and bursts have the number of a collective."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.lateness.own_time import _collective, _on_all_hops, _summed
from llmprism.methods.prism.faults.measures.bursts import (
    Bursts,
    _in_own_steps,
    whole_bursts,
    with_answers,
)

STEPS, PERIOD_NS = 8, 1_000_000_000
JOB: Any = SimpleNamespace(
    count=STEPS, period_ns=PERIOD_NS, phases=SimpleNamespace(first_of_epoch=np.array([0]))
)


def bursts_of(by_step: list[list[tuple[int, int, int]]]) -> Bursts:
    """Bursts (begin and end in ms of the step, bytes) of one connection, by step."""
    rows = [(step, *one) for step, own in enumerate(by_step) for one in own]
    step, begin, end, size = np.array(rows, np.int64).T
    number = np.arange(step.size)
    begin_ns, end_ns = (step * PERIOD_NS + each * 1_000_000 for each in (begin, end))
    return Bursts(np.zeros_like(step), number, step, begin_ns, end_ns, size)


def test_many_pieces_with_silences_are_the_transfer_that_they_are_pieces_of():
    healthy = [[(100, 140, 800)]] * 6
    stalled = [[(100 + 20 * i, 101 + 20 * i, 100) for i in range(8)]] * 2
    found = whole_bursts(JOB, bursts_of([*healthy, *stalled]))
    assert found.size.tolist() == [800] * 8
    assert (found.end_ns - found.start_ns).tolist() == [40_000_000] * 6 + [141_000_000] * 2


def test_a_few_pieces_are_of_transfers_that_wait_for_a_late_rank():
    healthy = [[(100, 140, 800)]] * 6
    late = [[(100, 105, 100), (140, 175, 700)]] * 2
    found = whole_bursts(JOB, bursts_of([*healthy, *late]))
    assert found.size.tolist() == [800] * 6 + [100, 700] * 2


def test_a_burst_lasts_until_the_acknowledgements_that_follow_it_at_once():
    """The other direction is slow: its acknowledgements come one by one, 8 ms apart at most."""
    bursts = bursts_of([[(100, 110, 800)], [(100, 110, 800), (400, 410, 800)]])
    begins = np.array([114, 122, 130, 200, 1118, 1126, 1500], np.int64) * 1_000_000
    context: Any = SimpleNamespace(
        connections=SimpleNamespace(
            src=np.zeros(1), of_row=np.zeros(begins.size, np.int64),
            small=np.ones(begins.size, np.bool_),
        ),
        flows=SimpleNamespace(start_ns=begins, end_ns=begins),
    )  # fmt: skip
    part: Any = SimpleNamespace(one=SimpleNamespace(connections=np.array([0])))
    found = with_answers(context, JOB, part, bursts)
    assert (found.end_ns // 1_000_000).tolist() == [130, 1126, 1410]
    assert found.start_ns.tolist() == bursts.start_ns.tolist()


def test_a_burst_that_is_cut_in_two_does_not_change_the_numbers_of_the_others():
    whole, cut = [100, 300, 100, 500], [100, 90, 210, 100, 500]
    size = np.array([*whole * 3, *cut], np.int64)
    cell = np.repeat(np.arange(4), [4, 4, 4, 5])
    number, count = _collective(size, cell)
    assert count == 4
    assert number.tolist() == [0, 1, 2, 3] * 3 + [0, 1, -1, 2, 3]


def test_a_collective_counts_where_all_hops_of_its_group_show_it():
    place = np.array([0, 0, 1, 1, 2])
    lane, number = np.zeros(5, np.int64), np.array([0, 1, 0, 1, 0])
    assert _on_all_hops(place, lane, number).tolist() == [True, False, True, False, True]


def test_collectives_that_are_not_known_are_late_as_the_others_are():
    away = np.array([[[1.0, np.nan, 3.0, 2.0], [1.0, 1.0, 1.0, 1.0], [np.nan] * 4]])
    np.testing.assert_allclose(_summed(away), [[8.0, 4.0, np.nan]])


def counted(per_step: list[int], sizes: dict[int, int] | None = None) -> Bursts:
    """Messages of 100 bytes, so many in each step; some have another size."""
    step = np.repeat(np.arange(STEPS), per_step)
    size = np.full(step.size, 100)
    for number, other in (sizes or {}).items():
        size[number] = other
    at_ns = np.arange(step.size) * 1_000_000
    return Bursts(np.zeros_like(step), np.arange(step.size), step, at_ns, at_ns + 1, size)


@pytest.mark.parametrize(
    "per_step",
    [[4, 4, 6, 2, 4, 4, 4, 4], [4, 4, 3, 5, 4, 4, 4, 4], [4, 6, 4, 4, 2, 5, 3, 4]],
)
def test_messages_before_a_pause_belong_to_the_step_that_lacks_them(per_step):
    found = _in_own_steps(JOB, counted(per_step))
    assert found.step.tolist() == np.repeat(np.arange(STEPS), 4).tolist()


@pytest.mark.parametrize("per_step", [[4, 4, 3, 4, 4, 4, 4, 4], [4, 4, 5, 4, 2, 4, 4, 4]])
def test_a_message_that_no_other_step_lacks_stays_where_it_is(per_step):
    bursts = counted(per_step)
    assert _in_own_steps(JOB, bursts).step.tolist() == bursts.step.tolist()


def test_longer_sequences_move_no_message():
    bursts = counted([4] * STEPS, {9: 150, 13: 50})
    assert _in_own_steps(JOB, bursts).step.tolist() == bursts.step.tolist()


def test_messages_of_another_attempt_are_not_those_that_one_lacked():
    job: Any = SimpleNamespace(count=STEPS, phases=SimpleNamespace(first_of_epoch=np.array([0, 3])))
    bursts = counted([4, 4, 6, 2, 4, 4, 4, 4])
    assert _in_own_steps(job, bursts).step.tolist() == bursts.step.tolist()
