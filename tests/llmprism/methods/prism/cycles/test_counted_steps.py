"""Steps of sharded parameters: messages all the time, and no longer silence where a step ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.steps.equal_times import equal_times
from llmprism.methods.prism.steps.repeated_bytes import RepeatedBytes
from llmprism.methods.prism.steps.stepping import find_steps

MS = 1_000_000
MEMBERS, LAYERS, STEPS = 4, 10, 9


def sharded(
    turn_ms: float, update_ms: float, micro_batches: int = 1, steps: int = STEPS
) -> tuple[Component, np.ndarray]:
    """Gathers of a forward pass, gathers and reductions of a backward pass, and an update.

    A layer takes 10 ms forward and 25 ms backward, ``turn_ms`` are between the two. The embedding
    has less bytes than a layer. Returns also when the steps begin [ns].
    """
    rng = np.random.default_rng(3)
    messages, begins, now = [], [], 0.0
    for _ in range(steps):
        begins.append(now)
        for _ in range(micro_batches):
            messages.append((now, 400))
            for layer in range(LAYERS):
                messages.append((now + 1, 1000))
                now += (10 if layer < LAYERS - 1 else turn_ms) * rng.normal(1, 0.01)
            for _ in range(LAYERS):
                messages += [(now, 1000), (now + 1, 1000)]
                now += 25 * rng.normal(1, 0.01)
            messages.append((now, 400))
            now += 1
        now += update_ms
    start = np.repeat([int(at * MS) for at, _ in messages], MEMBERS)
    rows = np.arange(start.size)
    size = np.repeat([size for _, size in messages], MEMBERS)
    traffic = Traffic(rows, start, start + MS, size, rows % MEMBERS, np.ones(rows.size, np.bool_))
    one = TrafficClass(np.arange(MEMBERS), False, traffic)
    found = Component(np.arange(MEMBERS, dtype=np.int32), (one,))
    return found, (np.array(begins) * MS).astype(np.int64)


def part_of(component: Component, first: int, last: int) -> Component:
    """The records of a component from ``first`` up to ``last``."""
    one = component.classes[0]
    kept = {
        name: getattr(one.traffic, name)[first:last]
        for name in ("row", "start_ns", "end_ns", "size", "couple", "forth")
    }
    kept["row"] = np.arange(last - first)
    traffic = Traffic(**kept)
    return replace(component, classes=(replace(one, traffic=traffic),))


@pytest.mark.parametrize("update_ms", [3.0, 8.0])
@pytest.mark.parametrize("turn_ms", [10.0, 40.0])
def test_steps_begin_with_the_first_record_and_not_with_the_longest_silence(turn_ms, update_ms):
    component, begins = sharded(turn_ms, update_ms)
    found = find_steps(component)
    assert found.start_ns.tolist() == begins.tolist()
    assert np.unique(np.bincount(found.step_of[0])).size == 1


@pytest.mark.parametrize("turn_ms", [10.0, 40.0])
@pytest.mark.parametrize("micro_batches", [2, 4])
def test_micro_batches_end_without_an_update(micro_batches, turn_ms):
    component, begins = sharded(turn_ms, 8.0, micro_batches)
    assert find_steps(component).start_ns.tolist() == begins.tolist()


@pytest.mark.parametrize("turn_ms", [10.0, 40.0])
def test_steps_are_counted_from_where_the_job_began_or_ended(turn_ms):
    component, begins = sharded(turn_ms, 8.0)
    records = len(component.classes[0].traffic)
    begun = part_of(component, 0, records - 70)
    traffic = begun.classes[0].traffic
    recorded = int(traffic.start_ns[0]) - 1000 * MS, int(traffic.end_ns[-1])
    assert find_steps(begun, recorded).start_ns.tolist() == begins.tolist()
    ended = part_of(component, 70, records)
    traffic = ended.classes[0].traffic
    recorded = int(traffic.start_ns[0]), int(traffic.end_ns[-1]) + 1000 * MS
    assert find_steps(ended, recorded).start_ns[1:].tolist() == begins[1:].tolist()


def test_it_is_not_known_where_steps_begin_if_the_records_were_cut_at_both_ends():
    component, _ = sharded(10.0, 8.0)
    traffic = component.classes[0].traffic
    cut = part_of(component, 70, len(traffic) - 38)
    recorded = int(traffic.start_ns[70]), int(traffic.end_ns[len(traffic) - 39])
    assert find_steps(cut, recorded).count == 0


def test_buckets_of_two_all_reduces_take_equal_times_and_are_no_steps():
    rows = np.arange(60 * MEMBERS)
    start = rows // MEMBERS * 3 * MS + 5000 * MS * (rows > 200)
    traffic = Traffic(
        rows, start, start + 2 * MS, np.full(rows.size, 1000), rows % MEMBERS,
        np.ones(rows.size, np.bool_),
    )  # fmt: skip
    classes = (TrafficClass(np.arange(MEMBERS), False, traffic),)
    assert equal_times(classes, RepeatedBytes(traffic), None).step_of is None
