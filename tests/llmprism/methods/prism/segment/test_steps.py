"""Steps of worlds with known borders: found exactly, also with loss, evaluations and cut ends."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.records.traffic import Traffic
from llmprism.methods.prism.segment.steps import find_steps

MS = 1_000_000
STEP_MS, SIZE = 100.0, 10_000


def traffic(starts_ms, lines, sizes=SIZE, forth=None) -> Traffic:
    """Messages of 1 ms: ``starts_ms`` of each on its line, with the couple and direction of it."""
    start = (np.asarray(starts_ms) * MS).astype(np.int64)
    couple = np.asarray(lines, np.int32)
    way = np.ones(start.size, np.bool_) if forth is None else np.asarray(forth, np.bool_)
    order = np.argsort(start, kind="stable")
    size = np.broadcast_to(np.asarray(sizes, np.int64), start.shape)
    rows = np.arange(start.size, dtype=np.int32)
    return Traffic(rows, start[order], start[order] + MS, size[order], couple[order], way[order])


def component(*classes: Traffic) -> Component:
    found = [TrafficClass(np.arange(4), bool((~one.forth).any()), one) for one in classes]
    return Component(np.arange(4, dtype=np.int32), tuple(found))


def gradients(steps: int, lines: int = 4, kept=None) -> Traffic:
    """Twenty messages on each line at the end of every step: from 60 to 98 ms of each."""
    at = [STEP_MS * k + 60 + 2 * i for k in range(steps) for i in range(20)]
    starts, line = np.repeat(at, lines), np.tile(np.arange(lines), len(at))
    keep = np.ones(starts.size, np.bool_) if kept is None else kept(starts.size)
    return traffic(starts[keep], line[keep])


def passes(steps: int, evaluated=()) -> Traffic:
    """Four activations and as many gradients in the first half of a step; then an evaluation."""
    starts, forth = [], []
    for k in range(steps):
        late = sum(30.0 for one in evaluated if one < k)
        begin = STEP_MS * k + late
        starts += [begin + 6 * i for i in range(4)] + [begin + 30 + 6 * i for i in range(4)]
        forth += [True] * 4 + [False] * 4
        if k in evaluated:
            starts += [begin + 101 + 4 * i for i in range(4)]
            forth += [True] * 4
    return traffic(starts, np.zeros(len(starts)), forth=forth)


def step_of(one: Traffic) -> np.ndarray:
    return (one.start_ns // int(STEP_MS * MS)).astype(np.int64)


@pytest.mark.parametrize("steps", [3, 5, 24, 200])
def test_every_record_is_in_its_step(steps):
    own = gradients(steps)
    found = find_steps(component(own))
    assert found.count == steps
    assert found.step_of[0].tolist() == step_of(own).tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lost", [0.01, 0.05])
def test_lost_records_move_no_border(seed, lost):
    rng = np.random.default_rng(seed)
    own = gradients(30, kept=lambda count: rng.random(count) >= lost)
    found = find_steps(component(own))
    assert found.count == 30
    # A message whose neighbours are lost may be nearer to the bytes of the next step.
    assert (found.step_of[0] == step_of(own)).mean() >= 0.999


def test_halves_that_differ_in_turn_are_no_steps():
    """Parts differ by 4 % in turn, exactly, and the silence after every second one is longer."""
    starts, sizes = [], []
    for k in range(40):
        starts += [50.0 * k + 15 * (k // 2) + 2 * i for i in range(10)]
        sizes += [1000 if k % 2 else 1040] * 10
    assert find_steps(component(traffic(starts, np.zeros(400), sizes))).count == 20


def test_passes_and_gradients_of_a_step_are_together():
    whole = component(gradients(12), passes(12))
    found = find_steps(whole)
    assert found.count == 12
    for one, own in zip(whole.classes, found.step_of, strict=True):
        assert own.tolist() == step_of(one.traffic).tolist()


def test_an_evaluation_is_in_no_step():
    own = passes(15, evaluated=(4, 9))
    found = find_steps(component(own))
    assert found.count == 15
    moved = np.bincount(found.step_of[0][found.step_of[0] >= 0], minlength=15)
    assert set(moved.tolist()) == {8}
    assert int((found.step_of[0] < 0).sum()) == 8


@pytest.mark.parametrize("seed", range(8))
def test_traffic_at_random_times_has_no_steps(seed):
    rng = np.random.default_rng(seed)
    starts, line = np.sort(rng.random(300) * 3000), rng.integers(0, 3, 300)
    assert find_steps(component(traffic(starts, line))).count == 0


@pytest.mark.parametrize("begin_ms", [0.0, 59.5, 75.0])
@pytest.mark.parametrize("end_ms", [1000.0, 1020.0, 1080.0])
def test_a_recording_may_begin_and_end_within_a_step(begin_ms, end_ms):
    """Of a cut step only what belongs together is in one: no record joins another step."""
    classes = []
    for one in (gradients(12), passes(12)):
        kept = (one.start_ns >= begin_ms * MS) & (one.start_ns < end_ms * MS)
        start, couple = one.start_ns[kept] / MS, one.couple[kept]
        classes.append(traffic(start, couple, forth=one.forth[kept]))
    found = find_steps(component(*classes))
    for one, own in zip(classes, found.step_of, strict=True):
        true = step_of(one)
        assert np.unique(own - true).size == 1


def test_an_unsure_component_may_be_asked_for_a_number():
    found = find_steps(component(gradients(20)), near=20)
    assert found.count == 20


def test_steps_that_fit_less_are_believed_less():
    """The quality of steps falls with the share of their records that is lost."""
    rng = np.random.default_rng(5)
    sure = [
        find_steps(
            component(gradients(40, kept=lambda n, lost=lost: rng.random(n) >= lost))
        ).quality
        for lost in (0.0, 0.05, 0.2)
    ]
    assert sure == sorted(sure, reverse=True)
    assert sure[0] == 1.0
