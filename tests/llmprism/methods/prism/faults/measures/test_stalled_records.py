"""Records that stalled: longer than their bytes take, while others of the step are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures import stalled_records
from llmprism.methods.prism.faults.measures.stalled_records import Stalls, _Records, _stalled

STEPS, RECORDS, PERIOD_NS = 28, 5, 50e6
JOB: Any = SimpleNamespace(count=STEPS, period_ns=PERIOD_NS)


def records(length_ns: dict[tuple[int, int], float], bridged_ns: float = 0.0) -> _Records:
    """Five records of 3 ms in each step of one connection, but for those given, (step, number)."""
    lengths = np.full((STEPS, RECORDS), 3e6)
    for place, one in length_ns.items():
        lengths[place] = one
    cell = np.repeat(np.arange(STEPS), RECORDS)
    every = np.ones(cell.size)
    start_ns = cell * int(PERIOD_NS) + np.tile(np.arange(RECORDS), STEPS) * 4_000_000
    return _Records(
        np.arange(cell.size, dtype=np.int32), cell, every, start_ns, lengths.ravel(), 3e6 * every,
        bridged_ns * every, 3e6 * every,
    )  # fmt: skip


def stalled_in(every: _Records) -> Stalls:
    return _stalled(JOB, every, message=True)


def test_one_record_of_a_step_that_takes_longer_stalled_by_what_it_takes_longer():
    found = stalled_in(records({(4, 2): 13e6, (6, 0): 12e6}))
    assert found.step.tolist() == [4, 6]
    assert found.row.tolist() == [4 * RECORDS + 2, 6 * RECORDS]
    assert found.lost_ns.tolist() == [10e6, 9e6]


def test_records_that_are_under_way_at_the_same_time_are_held_up_by_one_stop():
    """All records of the step wait until 20 ms, and the first of them began at 0."""
    held = {(4, number): 20e6 - 4e6 * number for number in range(3)}
    assert stalled_in(records(held)).row.tolist() == [4 * RECORDS + one for one in range(3)]


def test_where_all_of_a_step_takes_longer_the_network_is_slow_and_nothing_stalled():
    """One after the other: each is longer, and begins when the one before has ended."""
    every = records({(4, number): 13e6 for number in range(RECORDS)})
    every.start_ns[4 * RECORDS : 5 * RECORDS] += np.arange(RECORDS) * 9_000_000
    assert not stalled_in(every).row.size


def test_where_the_others_of_a_step_take_longer_as_well_the_network_is_slow():
    others = {(4, number): 5.9e6 for number in range(RECORDS)} | {(4, 2): 13e6}
    assert not stalled_in(records(others)).row.size


def test_records_that_are_as_long_in_every_step_did_not_stall():
    assert not stalled_in(records({(step, 0): 13e6 for step in range(STEPS)})).row.size


@pytest.mark.parametrize("first", [7, 11])
def test_stalls_in_most_steps_are_seen_where_those_before_show_what_is_usual(first):
    """Three of four steps have one, or three of five: the median step is no measure."""
    found = stalled_in(records({(step, 2): 13e6 for step in range(first, STEPS)}))
    assert found.step.tolist() == [*range(first, STEPS)]


@pytest.mark.parametrize(("bridged_ns", "stalled"), [(2e6, 1), (9e6, 0)])
def test_silences_that_a_record_may_hold_are_no_stall(bridged_ns, stalled):
    assert stalled_in(records({(4, 2): 13e6}, bridged_ns)).row.size == stalled


def test_two_messages_in_one_record_take_twice_as_long_and_a_silence(monkeypatch):
    """The second one waited behind the first, which stalled for 15 ms."""
    steps = np.repeat(np.arange(STEPS), 4)
    start_ns = steps * 50_000_000 + np.tile(np.arange(4), STEPS) * 10_000_000
    end_ns, size = start_ns + 1_000_000, np.full(steps.size, 8_000_000)
    end_ns[17], size[17] = start_ns[17] + 18_000_000, 16_000_000
    kept = np.delete(np.arange(steps.size), 18)
    flows: Any = SimpleNamespace(
        start_ns=start_ns[kept], end_ns=end_ns[kept], src=np.zeros(kept.size, np.int32),
        optional={}, lengths_ns=lambda rows: (end_ns - start_ns)[kept][rows],
    )  # fmt: skip
    rows = np.arange(kept.size, dtype=np.int32)
    traffic = SimpleNamespace(row=rows, size=size[kept])
    part = SimpleNamespace(
        kind="pp", one=SimpleNamespace(traffic=traffic), cells=lambda *_: (rows, steps[kept])
    )
    job: Any = SimpleNamespace(
        count=STEPS, period_ns=PERIOD_NS, phases=SimpleNamespace(classes=[part])
    )
    context: Any = SimpleNamespace(flows=flows, connections=None)
    monkeypatch.setattr(stalled_records, "clock_tick_ns", lambda *_: 0)
    found = stalled_records.stalled_records(context, job)
    assert found.step.tolist() == [4]
    # 18 ms, less 1 ms for each of two messages, less the shortest silence, 2 ms after it
    assert found.lost_ns.tolist() == [pytest.approx(14e6)]
