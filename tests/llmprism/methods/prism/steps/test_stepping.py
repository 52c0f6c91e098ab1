"""Steps: which of several equal divisions is the step, and which components share it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.divisions import divisions
from llmprism.methods.prism.jobs.attempts import Job, restarted, without_attempts
from llmprism.methods.prism.jobs.partial_steps import _are_buckets
from llmprism.methods.prism.jobs.repetition import _times_active
from llmprism.methods.prism.jobs.together import in_step, whole_steps
from llmprism.methods.prism.steps.gradients import lacks_gradients
from llmprism.methods.prism.steps.paused import is_paused
from llmprism.methods.prism.steps.silences import follow_at_once
from llmprism.methods.prism.steps.stepping import Part, Stepping, find_steps
from llmprism.methods.prism.steps.votes import agreed, without_splits

MS = 1_000_000


def ring(messages_ms: list[float], lost: float = 0.0, members: int = 4) -> Component:
    """A ring in which every member sends a message of one size at each of the times."""
    rng = np.random.default_rng(1)
    times = np.repeat(np.array(messages_ms) * MS, members).astype(np.int64)
    times = times[rng.random(times.size) >= lost]
    rows = np.arange(times.size)
    couple = rows % members
    traffic = Traffic(
        rows, times, times + MS, np.full(rows.size, 1000), couple, np.ones(rows.size, np.bool_)
    )
    one = TrafficClass(np.arange(members), False, traffic)
    return Component(np.arange(members, dtype=np.int32), (one,))


@pytest.mark.parametrize("lost", [0.0, 0.02])
@pytest.mark.parametrize("every", [3, 5, 7])
def test_pauses_after_some_steps_do_not_join_them(every, lost):
    messages, begin = [], 0.0
    for step in range(28):
        messages += [begin + 60, begin + 70, begin + 80]
        begin += 100 + (120 if step % every == every - 1 else 0)
    assert find_steps(ring(messages, lost)).count == 28


def division(cuts) -> Division:
    return Division(np.array(cuts), np.ones(len(cuts) + 1), 0.0, 1.0, 1.0, 2.0)


@pytest.mark.parametrize(("pipeline", "paused"), [(21, False), (20, False), (40, True), (41, True)])
def test_halves_of_steps_are_steps_and_pauses_only_if_the_pipeline_shows_them(pipeline, paused):
    """Gradients are reduced, then as many bytes gathered: each half may be a step, then a pause.

    Records that begin and end within a step show the pipeline one part more.
    """
    halves, steps = division(range(8, 320, 8)), division(range(16, 320, 16))
    own = division(np.linspace(8, 312, pipeline - 1).astype(int))
    classes = ring(np.arange(80.0)).classes * 2
    assert is_paused(classes, [[halves, steps], [own]], len(halves), len(steps)) is paused


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


@pytest.mark.parametrize(("share", "sure"), [(1, True), (3, False)])
def test_parts_that_hold_updates_are_steps_whatever_pauses_come_between(share, sure):
    """Parameters have half the bytes of gradients; what is a third of them is something else."""
    gradients, parameters = [300 * share, *[120 * share] * 6], [60] * 6 + [150]
    steps = [(gradients + parameters, 40.0 if i % 3 == 2 else 15.0) for i in range(24)]
    found = find_steps(sized(steps))
    assert (found.count, found.quality > 0.5) == (24, sure)


def test_pauses_may_be_at_another_place_of_a_step_than_its_end():
    """Evaluations follow the update, and the longest silence of a step the gathers after it."""
    steps, pauses = division(range(16, 320, 16)), division(range(40, 320, 64))
    classes = ring(np.arange(80.0)).classes
    assert is_paused(classes, [[steps, pauses]], len(steps), len(pauses))


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


def stepping(end_ms) -> Stepping:
    end_ns = (np.asarray(end_ms) * MS).astype(np.int64)
    return Stepping(end_ns.size, 0.9, 0, (), end_ns - 40 * MS, end_ns)


@pytest.mark.parametrize("silence_ms", [0, 20_000])
@pytest.mark.parametrize(
    ("rest_ms", "messages", "buckets"),
    [(-1, 1, True), (-1, 5, True), (16, 1, True), (16, 5, False), (40, 1, False)],
)
def test_what_repeats_with_little_rest_between_long_silences_are_buckets(
    silence_ms, rest_ms, messages, buckets
):
    """A step of one bucket rests for a forward pass; one of several may be slow to communicate."""
    ends = 100 * np.arange(1, 101)
    ends[50:] += silence_ms
    own = stepping(ends)
    own = replace(own, start_ns=own.end_ns + (rest_ms - 100) * MS)
    (one,) = ring(np.arange(100.0 * messages)).classes
    part = Part(Component(np.arange(4, dtype=np.int32), (one,)), own)
    assert _are_buckets(part) == (silence_ms > 0 and buckets)


def test_steps_without_rest_that_are_slow_for_a_while_are_no_buckets():
    """A slow link makes steps of sharded parameters five times as long: nothing is silent."""
    lengths = np.where((np.arange(100) > 30) & (np.arange(100) < 75), 500, 100)
    ends = np.cumsum(lengths)
    own = stepping(ends)
    own = replace(own, start_ns=own.end_ns - (lengths + 1) * MS)
    (one,) = ring([0.0, 1.0]).classes
    part = Part(Component(np.arange(4, dtype=np.int32), (one,)), own)
    assert not _are_buckets(part)


@pytest.mark.parametrize("place", [0, 1, 13, 27])
def test_one_step_that_is_cut_in_two_anywhere_does_not_part_a_job(place):
    rng = np.random.default_rng(2)
    ends = np.cumsum(rng.normal(100, 2, 28))
    extra = np.sort(np.append(ends, ends[place] - 37.0))
    assert in_step(stepping(extra), stepping(ends + 1.5))
    assert in_step(stepping(ends + 1.5), stepping(extra))


@pytest.mark.parametrize("lost", [0, 5, 11])
@pytest.mark.parametrize("tick_ms", [0.001, 1])
def test_steps_of_equal_length_of_which_one_was_lost_keep_their_distance(lost, tick_ms):
    """Without the first or the last one the distances are as steady as each other."""
    ends = 60.2 * np.arange(1, 13)
    others = np.delete(ends + 0.7, lost)
    rounded = [np.round(own / tick_ms) * tick_ms for own in (ends, others)]
    one, other = (stepping(own) for own in rounded)
    assert in_step(one, other)
    assert in_step(other, one)


@pytest.mark.parametrize("seed", range(4))
def test_jobs_with_steps_of_nearly_equal_length_stay_apart(seed):
    """Their distance changes little in a dozen steps, but what steps add to it adds up."""
    rng = np.random.default_rng(seed)
    ends = [np.cumsum(rng.normal(length, 1.0, 16)) for length in (400.0, 399.2)]
    assert not in_step(stepping(ends[0]), stepping(ends[1] + 150))


@pytest.mark.parametrize(("apart_ms", "joined"), [(0, True), (40, False)])
def test_parts_that_take_a_few_steps_at_the_same_times_may_drift_by_chance(apart_ms, joined):
    """The distances are those of two replicas in a drawn world."""
    ends = 130.0 * np.arange(1, 5)
    other = ends + np.array([0.7, -0.9, 2.0, -2.9]) + apart_ms
    assert in_step(stepping(ends), stepping(other)) == joined


@pytest.mark.parametrize("seed", range(4))
def test_jobs_that_save_now_and_then_stay_apart(seed):
    """Saves make the distance jump from step to step, but it has a trend all the same."""
    rng = np.random.default_rng(seed)
    step = np.arange(14)
    one = np.cumsum(rng.normal(1250, 5, 14))
    other = one + 150 * (-1.0) ** step - 40 * step + rng.normal(0, 5, 14)
    assert not in_step(stepping(one), stepping(other))


@pytest.mark.parametrize("seed", range(4))
def test_clocks_that_drift_do_not_part_a_job(seed):
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.normal(400, 1.0, 16))
    others = ends * (1 + 1e-4) + rng.normal(150, 0.2, 16)
    assert in_step(stepping(ends), stepping(others))


def test_jobs_that_do_not_wait_for_each_other_stay_apart():
    rng = np.random.default_rng(3)
    ends = np.cumsum(rng.normal(100, 3, 29))
    others = np.cumsum(rng.normal(104, 3, 28))
    assert not in_step(stepping(ends), stepping(others))


def attempt(
    begin_ms: float, classes: list[list[int]], size: int = 1000, two_way: bool = False
) -> Job:
    """Four endpoints that each send once in each of five steps; ``classes`` are of senders."""
    steps = np.arange(5)
    own = []
    for senders in classes:
        start = np.repeat(steps * 100 * MS + int(begin_ms * MS), len(senders))
        rows = np.tile(senders, 5)  # a row number stands for its sender, see `connections`
        traffic = Traffic(
            rows, start, start + MS, np.full(rows.size, size), rows, np.ones(rows.size, np.bool_)
        )
        own.append(TrafficClass(np.array(senders), two_way, traffic))
    step_of = tuple(np.repeat(steps, len(senders)) for senders in classes)
    component = Component(np.arange(4, dtype=np.int32), tuple(own))
    part = Part(component, Stepping(5, 0.9, 0, step_of, steps, steps))
    return Job(np.arange(4, dtype=np.int32), ((part,),))


@pytest.mark.parametrize(
    ("later", "joined"),
    [
        (attempt(9000, [[0, 1], [2, 3]]), 1),
        (attempt(9000, [[0, 1, 2, 3]], size=1500), 2),
        (attempt(200, [[0, 1, 2, 3]]), 2),
        (attempt(9000, [[0, 1, 2, 3]], two_way=True), 2),
    ],
    ids=["other classes", "other volume", "at the same time", "a ring, then a pipeline"],
)
def test_attempts_of_a_job_follow_one_another_with_the_same_volumes(later, joined):
    connections = SimpleNamespace(src=np.arange(4), of_row=np.arange(4))
    assert len(restarted([attempt(0, [[0, 1, 2, 3]]), later], connections)) == joined


@pytest.mark.parametrize(
    ("brief", "jobs"),
    [
        (attempt(0, [[0, 1, 2, 3]], size=250), 1),
        (attempt(0, [[0, 1, 2, 3]], size=630), 2),
        (attempt(9200, [[0, 1, 2, 3]], size=250), 2),
        (replace(attempt(0, [[0, 1]]), endpoints=np.arange(2, dtype=np.int32)), 1),
        (replace(attempt(0, [[0, 1]], size=900), endpoints=np.arange(2, dtype=np.int32)), 2),
    ],
    ids=["micro-batches", "other volume", "at the same time", "some ranks", "ranks of another job"],
)
def test_a_brief_attempt_is_no_job_of_its_own(brief, jobs):
    connections = SimpleNamespace(src=np.arange(4), dst=np.arange(4)[::-1], of_row=np.arange(4))
    assert len(without_attempts([brief, attempt(9000, [[0, 1, 2, 3]])], connections)) == jobs


@pytest.mark.parametrize(
    ("steps", "active", "times"),
    [(192, [*range(90, 107), *range(175, 192)], 2), (7, [3], 1), (20, [4, 9, 14, 19], 4)],
)
def test_gradients_that_move_in_several_parts_of_a_step_move_once(steps, active, times):
    volume = np.zeros(steps)
    volume[active] = 1.0
    assert _times_active(volume) == times


def lines(starts_ms, length_ms: float = 1.0) -> Traffic:
    """Messages of one size."""
    start = (np.array(starts_ms) * MS).astype(np.int64)
    rows = np.arange(start.size)
    size = np.full(start.size, 1000)
    return Traffic(rows, start, start + int(length_ms * MS), size, 0 * rows, rows >= 0)


@pytest.mark.parametrize(("rest_ms", "follow"), [(0.0, True), (1.0, False)])
def test_only_buckets_follow_each_other_at_once(rest_ms, follow):
    """Each bucket is two messages; four buckets make a step."""
    each = 2 + rest_ms
    starts = [40 * step + each * part + half for step in range(10) for part in range(4)
              for half in (0, 1)]  # fmt: skip
    fine, coarse = (
        Division(np.arange(few, 80, few), np.full(80 // few, 1000.0 * few), 0.01, 1.0, 1.0, 2.0)
        for few in (2, 8)
    )
    assert follow_at_once(lines(starts), fine, coarse) == follow


def test_steps_of_parts_are_compared_by_all_of_their_traffic():
    """The reference of one part is gradients, that of the other one activations."""
    begins = np.arange(8) * 104.0  # later in each step
    steps = np.arange(8, dtype=np.int32)
    ends = np.arange(8) * 100.0 + 60
    classes = tuple(
        TrafficClass(np.array([i]), True, lines(times)) for i, times in enumerate((begins, ends))
    )
    parts = []
    for own in classes:
        start, end = own.traffic.start_ns, own.traffic.end_ns
        component = Component(np.array([0, 1], np.int32), classes)
        parts.append(Part(component, Stepping(8, 0.9, 0, (steps, steps), start, end)))
    assert not in_step(parts[0].stepping, parts[1].stepping)
    assert in_step(whole_steps(parts[0]), whole_steps(parts[1]))


@pytest.mark.parametrize("later_ms", [-40, 40])
def test_gradients_between_the_passes_of_two_steps_are_of_one_of_them(later_ms):
    """They begin before or after all passes of their step, and two steps are equal parts, too."""
    passes = [step * 100 + at for step in range(8) for at in (50, 52, 54)]
    reduced = [step * 100 + 50 + later_ms + at for step in range(8) for at in range(5)]
    own = [ring(passes, members=12), ring(reduced, members=4)]
    classes = tuple(one.classes[0] for one in own)
    proposed = [[_equal_parts(one, count) for count in (4, 8)] for one in (classes[0], classes[1])]
    assert not lacks_gradients(classes, proposed, 8)


def _equal_parts(one: TrafficClass, count: int) -> Division:
    each = len(one.traffic) // count
    cuts = np.arange(each, len(one.traffic), each)
    return Division(cuts, np.full(count, 1.0), 0.0, 1.0, 1.0, 9.0)


@pytest.mark.parametrize(("every", "sure"), [(3, False), (100, True)])
def test_longer_silences_at_equal_distances_are_updates_or_pauses(every, sure):
    messages, begin = [], 0.0
    for step in range(24):
        messages += [begin + 60, begin + 70, begin + 80]
        begin += 100 + (120 if step % every == every - 1 else 0)
    found = find_steps(ring(messages))
    assert (found.count, found.quality > 0.5) == (24, sure)


@pytest.mark.parametrize(("members", "circulates"), [(4, True), (4, False), (1, True)])
def test_a_ring_of_all_ranks_moves_gradients_though_they_are_a_small_share(members, circulates):
    """Long sequences: exchanges within micro-batches move far more than gradients."""
    often = [100.0 * i + 5 * j for i in range(18) for j in range(12)]
    seldom = [300.0 * i + 290 for i in range(6)]
    exchanges, gradients = ring(often).classes[0], ring(seldom, members=members).classes[0]
    traffic = replace(gradients.traffic, size=gradients.traffic.size * 4 // members)
    classes = (exchanges, replace(gradients, traffic=traffic, circulates=circulates))
    proposed = [divisions(one.traffic, 3) for one in classes]
    assert lacks_gradients(classes, proposed, 18) is (members > 1 and circulates)


@pytest.mark.parametrize(
    ("volumes", "count"),
    [
        ([1.0] * 10 + [0.1, 0.9] + [1.0] * 10, 21),
        ([1.0] * 10 + [0.1, 0.9, 0.4, 0.6] + [1.0] * 10, 22),
        ([0.5, 0.5] * 8 + [1.0] * 4, 20),  # most parts are halves: no few are split
        ([1.0] * 22, 22),
    ],
)
def test_a_few_parts_that_a_silence_splits_are_steps(volumes, count):
    """A slow rank makes a silence inside a step longer than those between others."""
    every = np.array(volumes)
    edges = np.cumsum(every)[:-1]
    whole = edges[np.abs(edges - np.rint(edges)) < 1e-9]
    split = Division(np.arange(1, every.size), every, 0.01, 0.9, 0.95, 6.0)
    if every.min() == 1:
        split = Division(split.cuts, every, 0.01, 1.0, 1.0, 6.0)
    kept = np.flatnonzero(np.isin(edges, whole)) + 1
    parts = np.diff(np.concatenate(([0.0], whole, [every.sum()])))
    joined = Division(kept, parts, 0.01, 1.0, 1.0, 1.0)
    assert without_splits([[split, joined]], len(split)) == count


def pipeline_and_rings(extra_mb: float) -> tuple[TrafficClass, ...]:
    """Ten steps of a pipeline and of gradients, of which ``extra_mb`` of 4 MB begin an eleventh.

    In the last two steps a rank is slow, so that the ring of gradients waits for it after a first
    chunk, for longer than between steps.
    """
    rows, ring_rows = [], []
    for step in range(11):
        whole = step < 10
        rows += [(100.0 * step + 10 * i, 1.0) for i in range(4 if whole else int(extra_mb))]
        parts = [(60.0, 0.1), (95.0, 3.9)] if step in (8, 9) else [(60.0, 4.0)]
        ring_rows += [(100.0 * step + at, moved) for at, moved in parts] if whole else []
    return tuple(_one_way(np.array(own)) for own in (rows, ring_rows, ring_rows))


def _one_way(rows) -> TrafficClass:
    """Records of 1 ms from the times [ms] and volumes [MB] of some ``rows``."""
    traffic = lines(rows[:, 0].tolist())
    traffic = replace(traffic, size=(rows[:, 1] * 1e6).astype(np.int64))
    return TrafficClass(np.arange(1), two_way=False, traffic=traffic)


@pytest.mark.parametrize("extra_mb", [0, 1, 3])
def test_a_step_that_records_show_in_part_is_not_one_that_a_silence_splits(extra_mb):
    classes = pipeline_and_rings(extra_mb)
    proposed = [divisions(one.traffic, 3) for one in classes]
    assert agreed(classes, proposed) == 10
