"""What repeats, but is no step: layers, buckets, evaluations; and sharded parameters by size."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.methods.prism.classes.classes import Component, TrafficClass
from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.cycles.evaluations import beyond_steps, sizes_of, steps_and_evaluations
from llmprism.methods.prism.steps.stepping import find_steps
from worlds import model, rail, solo

pytestmark = pytest.mark.slow  # each test simulates a world

WORLD = """\
cluster: {{servers: 8, gpus_per_server: 1, nics_per_server: 1, nic_gbps: 100,
          fabric: {{kind: tor, leaf_ports: 4, spines: 2}}}}
jobs:
  - {{name: one, model: {{layers: 12, hidden: 1024, heads: 8, vocab: 32000, sequence_length: 1024}},
     dp: {replicas}, mfu: 0.4, compute_jitter: 0.01, step_overhead_ms: 8, {keys}}}
"""


def replicated(keys: str, replicas: int = 8) -> str:
    """A world of replicas without a pipeline."""
    return WORLD.format(keys=keys, replicas=replicas)


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
@pytest.mark.parametrize("every", [2, 3, 4])
def test_steps_of_sharded_parameters_are_found_between_evaluations(scored, every, micro_batches):
    evaluation = f"evaluation: {{every: {every}, micro_batches: 5}}"
    keys = f"zero_stage: 3, micro_batches: {micro_batches}, steps: 12, {evaluation}"
    timeline = scored(replicated(keys)).score["timeline"]
    assert timeline["coverage"] == 1
    assert timeline["steps_unexplained"] == 0
    assert timeline["dp_end_error_mean"] <= 0.003


@pytest.mark.parametrize("every", [2, 3])
def test_pauses_after_every_few_steps_do_not_join_steps_that_gather_parameters(scored, every):
    evaluation = f"evaluation: {{every: {every}, micro_batches: 3}}"
    keys = f"zero_stage: 1, micro_batches: 3, steps: 12, {evaluation}"
    timeline = scored(replicated(keys)).score["timeline"]
    assert timeline["coverage"] == 1
    assert timeline["steps_unexplained"] == 0


@pytest.mark.parametrize(("micro_batches", "evaluated"), [(1, 1), (4, 3)])
def test_evaluations_after_every_third_step_join_no_steps_of_whole_replicas(
    scored, micro_batches, evaluated
):
    evaluation = f"evaluation: {{every: 3, micro_batches: {evaluated}}}"
    keys = f"zero_stage: 0, micro_batches: {micro_batches}, steps: 24, {evaluation}"
    timeline = scored(replicated(keys)).score["timeline"]
    assert timeline["coverage"] == 1
    assert timeline["steps_unexplained"] == 0
    assert timeline["step_error_p99"] <= 1.5 * timeline["step_error_mean"]  # host work: 8 ms each


def ring(messages: list[tuple[float, int]], members: int = 4) -> Component:
    """A ring whose members all send the same messages: start [ms] and bytes of each."""
    times = np.repeat(np.array([start for start, _ in messages]) * 1e6, members).astype(np.int64)
    size = np.repeat(np.array([size for _, size in messages]), members)
    rows = np.arange(times.size)
    forth = np.ones(rows.size, np.bool_)
    traffic = Traffic(rows, times, times + 1_000_000, size, rows % members, forth)
    one = TrafficClass(np.arange(members), False, traffic)
    return Component(np.arange(members, dtype=np.int32), (one,))


def test_layers_that_move_as_many_bytes_in_other_messages_are_no_steps():
    """A forward pass gathers the parameters of a layer in one way, a backward pass in others."""
    forward = [(100 * i + at, 1000) for i in range(40) for at in (0, 2)]
    backward = [
        (4000 + 90 * i + 40 * at, size) for i in range(40) for at, size in ((0, 300), (1, 1700))
    ]
    last = [
        (7600 + 90 * i + 30 * at, size)
        for i in range(60)
        for at, size in ((0, 700), (1, 300), (2, 1000))
    ]
    assert find_steps(ring(forward + backward + last)).count == 0


def test_buckets_that_long_silences_part_into_equal_steps_are_no_evaluations():
    """The first bucket is followed later than others, and the last one at once."""
    sizes, at = [1300, *[1000] * 8, 1300], [0, 3.5, *(7.25 + 3.75 * np.arange(7)), 30.75]
    messages = [(60 * step + at[i], size) for step in range(12) for i, size in enumerate(sizes)]
    found = find_steps(ring(messages))
    assert found.count == 12
    assert np.bincount(found.step_of[0]).tolist() == [4 * len(sizes)] * 12


def test_pauses_after_every_second_step_do_not_join_steps_of_sharded_parameters():
    """Each half reduces gradients and gathers parameters, so it is no phase of a step."""
    sizes = [1000] * 6 + [2000, 1000] * 3
    begins = [100 * step + 300 * (step // 2) for step in range(12)]
    messages = [(begin + 5 * i, size) for begin in begins for i, size in enumerate(sizes)]
    assert find_steps(ring(messages)).count == 12


def test_gathers_after_many_micro_batches_are_no_evaluations():
    """Gradients of every micro-batch are reduced; parameters are gathered once, after an update."""
    sizes = [2000] * 8 + [5000]
    step = [(40 * batch + i, size) for batch in range(8) for i, size in enumerate(sizes)]
    step += [(330 + i, size // 2) for i, size in enumerate(sizes)]
    messages = [(400 * number + at, size) for number in range(12) for at, size in step]
    assert find_steps(ring(messages)).count == 12


def test_a_larger_bucket_is_no_evaluation_after_a_step():
    """Gradients of one step in 20 equal buckets, but for two with the embeddings."""
    sizes = [1500, *[1000] * 18, 1500]
    assert find_steps(ring([(20 * i + i % 3, size) for i, size in enumerate(sizes)])).count == 0


def test_buckets_of_several_sizes_are_no_steps():
    """Reduced in buckets of one size, gathered in buckets of another that differs little."""
    sizes = [1070] + [1000] * 20 + [1080, 920] + [930] * 17
    assert find_steps(ring([(20 * i + i % 3, size) for i, size in enumerate(sizes)])).count == 0


@pytest.mark.parametrize(("at_the_edges", "steps"), [(1, 13), (50, None)])
def test_what_the_window_cuts_off_is_no_more_than_a_step(at_the_edges, steps):
    """Equal buckets in the middle of a step are no steps if the parts at the edges hold more."""
    edge = [1000, 500] * at_the_edges
    evaluated = [[1000, 500, 500, 500]] + [[1000, 500]] * 10
    parts = [edge, *evaluated, edge]
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    found = steps_and_evaluations(cuts, sizes_of(np.concatenate(parts)))
    assert (None if found is None else found.size + 1) == steps


def test_evaluations_are_found_though_some_records_hold_two_gathers():
    """Thirty gathers of 500 bytes and ten reductions of 1200 in a step; in some, two are joined."""
    parts = []
    for step in range(13):
        gathers = [500] * 28 + ([1000] if step % 2 else [500, 500])
        parts.append(gathers + [1200] * 10 + [500] * (15 if step % 4 == 3 else 0))
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    found = steps_and_evaluations(cuts, sizes_of(np.concatenate(parts)))
    assert found is not None
    assert found.tolist() == cuts.tolist()


@pytest.mark.parametrize(("replicas", "shards"), [(8, 2), (6, 3), (4, 2)])
def test_parameters_that_are_sharded_in_small_groups_are_data_parallel(scored, replicas, shards):
    """Each size is gathered twice and its double reduced once; activations have one size."""
    keys = f"zero_stage: 3, hybrid_shards: {shards}, micro_batches: 1, steps: 7"
    run = scored(replicated(keys, replicas))
    assert run.score["pairs"]["accuracy"] == 1
    assert run.diagnosis.layouts[["dp", "tp"]].to_numpy().tolist() == [[replicas, 1]]


STEP, EVALUATION = [40, 10, 10, 40, 20, 80], [40, 10, 10]  # messages; 20 and 80 are gradients


def test_the_first_message_of_a_step_may_be_early():
    """A rank that is ready before the others sends a little, and waits for them."""
    sent: list[int] = []
    begins = []
    for number in range(12):
        begins.append(len(sent))
        sent += [0.4, *STEP] if number in (5, 7) else STEP  # the first is what is early
        sent += EVALUATION * (number % 3 == 2)
    cuts = np.array(sorted([*begins[1:], begins[5] + 1, begins[7] + 1]))
    found = steps_and_evaluations(cuts, sizes_of(np.array(sent)))
    assert found is not None
    assert found.tolist() == begins[1:]


def test_messages_beyond_a_step_are_counted_in_bytes():
    """The exporter cuts some of them in two."""
    size, part, expected = [], [], []
    for number in range(9):
        step = [15, 25, *STEP[1:]] if number % 2 else STEP
        size += step + EVALUATION * (number % 3 == 2)
        part += [number] * (len(size) - len(part))
        expected += [False] * len(step) + [True] * (len(size) - len(expected) - len(step))
    one, forth = np.zeros(len(size), np.int32), np.zeros(len(size), np.bool_)
    beyond = beyond_steps(one, forth, np.array(part), np.array(size))
    assert beyond.tolist() == expected


@pytest.mark.parametrize("before", [[True] * 9, [False] * 9, [True, False] * 4 + [True]])
def test_forward_passes_of_an_evaluation_are_beyond_the_step_before_or_after_it(before):
    """Four activations and their gradients in each of nine steps, and three more in every third.

    A part may begin with an evaluation, and another one end with one.
    """
    forth, part, expected = [], [], []
    step, evaluation = [True] * 4 + [False] * 4, [True] * 3
    for number in range(9):
        extra = evaluation * (number % 3 == 1)
        forth += extra + step if before[number] else step + extra
        beyond, within = [True] * len(extra), [False] * len(step)
        expected += beyond + within if before[number] else within + beyond
        part += [number] * (len(forth) - len(part))
    size, couple = np.full(len(forth), 100), np.zeros(len(forth), np.int32)
    beyond = beyond_steps(couple, np.array(forth), np.array(part), size)
    assert beyond.tolist() == expected


@pytest.mark.slow
def test_a_pipeline_alone_shows_its_steps_beside_evaluations(scored):
    """Gradients stay inside servers, so activations and their gradients are all there is."""
    world = solo(
        rail(4, 4, gpu="a100"),
        model=model(32, 4096, 16, 32000, 2048), dp=4, pp=4, micro_batches=4, steps=13,
        mfu=0.45, compute_jitter=0.005, evaluation={"every": 4, "micro_batches": 8},
    )  # fmt: skip
    run = scored(world)
    found = run.score
    assert found["timeline"]["coverage"] == 1
    assert found["timeline"]["step_error_mean"] <= 0.01
    assert run.diagnosis.layouts["micro_batches"].tolist() == [4]


def test_evaluations_that_gather_show_that_parameters_are_sharded(scored):
    """Ranks that share a server hide sizes; the update ends when an evaluation begins."""
    world = solo(
        rail(4, 2, nic_gbps=100),
        model=model(8, 1024, 16, 64000, 1024), dp=8, zero_stage=3, micro_batches=3, steps=14,
        mfu=0.5, compute_jitter=0.02, step_overhead_ms=9,
        evaluation={"every": 2, "micro_batches": 7},
    )  # fmt: skip
    run = scored(world)
    assert run.diagnosis.layouts["sharding"].tolist() == ["zero3"]
    assert run.score["timeline"]["coverage"] == 1
    assert run.score["timeline"]["dp_end_error_max"] < 0.001
    true = run.truth("steps").groupby("step")["end_ns"].max().sort_index().to_numpy()
    found = run.diagnosis.steps.groupby("step")["end_ns"].max().sort_index().to_numpy()
    assert np.median(np.abs(found - true)) < 100_000
