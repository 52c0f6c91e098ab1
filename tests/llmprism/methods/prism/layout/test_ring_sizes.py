"""The members of a ring that a server hides, counted by the blocks that each hop passes on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from llmprism.methods.prism.layout.ring_sizes import _shape_of_stage, most_likely

WORLD = """\
cluster: {servers: %d, gpus_per_server: %d, nics_per_server: %d, nic_gbps: 200,
          fabric: {kind: rail, leaf_ports: 16, spines: 4}}
collector: {idle_gap_us: 200%s}
jobs:
  - {name: solo, model: {layers: 8, hidden: %d, heads: 16, vocab: 32000, sequence_length: 2048},
     mfu: 0.45, compute_jitter: 0.01, step_overhead_ms: 5, steps: 7, %s}
"""
LAYERS = np.array([12 * 2048**2 + 13 * 2048, 32000 * 2048, 7 * 2048**2 + 11])


def blocks(members, rings=1):
    """Bytes that a hop of a ring of so many members passes on, of one of so many rings."""
    return -(-4 * LAYERS // (members * rings)) * (members - 1)


@pytest.mark.parametrize(("hops", "rings"), [(2, 2), (4, 2), (2, 8), (8, 8), (3, 4)])
def test_replicas_only_and_one_group_only_are_distinguished(hops, rings):
    replicas = most_likely(blocks(hops * rings, rings), hops * rings, rings)
    group = most_likely(blocks(hops), hops * rings, rings)
    assert (replicas.ranks, group.ranks) == (rings, 1)
    assert group.confidence > 0.9


def test_ranks_between_replicas_and_one_group_are_counted():
    """Eight GPUs of a server: two replicas of a tensor-parallel group of four, on 8 servers."""
    found = most_likely(blocks(16, 4), 64, 8)
    assert found.ranks == 2
    assert found.confidence > 0.9


def test_a_factor_that_widths_of_models_often_have_is_doubtful():
    """Three members: all sizes are even. Four of them: all sizes are multiples of three."""
    sizes = 3 * blocks(2)
    assert most_likely(sizes, 4, 2).confidence < 0.8


def test_activations_show_whether_the_width_has_a_factor():
    """Eight NICs on four servers: all sizes are multiples of 3 and 5, for the width is of 5."""
    sizes = 5 * blocks(4)
    alone, with_width, without = (
        most_likely(sizes, 32, 8, np.array(activations, np.int64))
        for activations in ([], [5120 * 4096], [4096 * 4096])
    )
    assert (alone.ranks, with_width.ranks, without.ranks) == (4, 1, 4)
    assert without.confidence > alone.confidence + 0.1


def test_sizes_that_no_number_of_ranks_explains_show_nothing():
    assert most_likely(blocks(8) + 52, 16, 2) is None


@pytest.mark.parametrize(
    ("hops", "rings", "members", "group"), [(8, 1, 12, 1), (2, 4, 12, 4), (4, 2, 6, 1)]
)
def test_ranks_in_idle_gpus_are_counted(hops, rings, members, group):
    """``members`` are no multiple of the hops in sight; servers have GPUs that send nothing."""
    sizes = blocks(members, group)
    in_sight = most_likely(sizes, hops * rings, rings)
    found = most_likely(sizes, hops * rings, rings, gpus=2 * hops * rings)
    assert in_sight is None or in_sight.members != members
    assert (found.members, found.ranks) == (members, group)


def test_a_ring_is_not_longer_than_there_are_gpus():
    assert most_likely(blocks(12), 8, 1, gpus=11) is None


@pytest.mark.slow
def test_a_ring_shows_ranks_whose_nics_are_idle(scored):
    """Servers of four and two ranks: two rings enter and leave each of them by one NIC."""
    run = scored(WORLD % (2, 4, 4, "", 2048, "dp: 6, zero_stage: 0, micro_batches: 2"))
    layout = run.diagnosis.layouts.iloc[0]
    assert len(run.diagnosis.jobs) == 4
    (way,) = json.loads(layout["evidence"])["one_of"]  # likeliest, but not likely enough to state
    assert (way["dp"], way["tp"]) == (6, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("servers", "gpus", "keys", "sizes"),
    [
        (4, 2, "dp: 8, zero_stage: 3", {"dp": 8, "tp": 1, "ep": 1}),
        (4, 2, "dp: 8, zero_stage: 0", {"dp": 8, "tp": 1, "ep": 1}),
        (4, 4, "dp: 8, tp: 2, zero_stage: 1", {"dp": 8, "tp": 2, "ep": 1}),
        (4, 2, "dp: 4, tp: 2, zero_stage: 2", {"dp": 4, "tp": 2, "ep": 1}),
    ],
)
def test_jobs_without_pipeline_show_how_many_replicas_a_server_has(
    scored, servers, gpus, keys, sizes
):
    run = scored(WORLD % (servers, gpus, gpus, "", 2048, f"{keys}, micro_batches: 2"))
    assert run.diagnosis.layouts[list(sizes)].to_dict("records") == [sizes]


@pytest.mark.slow
def test_rings_that_share_a_collective_are_one_group(scored):
    run = scored(WORLD % (4, 2, 2, "", 2048, "dp: 8, zero_stage: 3, micro_batches: 2"))
    assert run.score["parallelism"]["groups_exact"] == 1


@pytest.mark.slow
def test_sampled_records_leave_all_ways_to_divide_a_server(scored):
    sampled = ", effects: [{kind: headers}, {kind: sampling, one_in: 100}]"
    run = scored(WORLD % (4, 2, 2, sampled, 4096, "dp: 4, tp: 2, zero_stage: 1, micro_batches: 2"))
    layout = run.diagnosis.layouts.iloc[0]
    assert (layout["dp"], layout["tp"]) == (-1, -1)
    ways = json.loads(layout["evidence"])["one_of"]
    assert [(way["dp"], way["tp"]) for way in ways] == [(4, 2), (8, 1)]
    assert layout["confidence"] < 0.75


def test_servers_that_hold_different_numbers_of_ranks_have_one_ring_for_all_of_them():
    """Six replicas on servers of four and two GPUs: five blocks pass each hop, over two NICs."""
    assert most_likely(blocks(6, 2), 6, 2).ranks == 2
    assert most_likely(blocks(2), 4, 2).ranks == 1


def test_tensor_parallel_groups_divide_the_ranks_of_uneven_servers():
    """Servers of three and two GPUs: two groups of two would leave one rank over."""
    assert most_likely(blocks(5, 2), 5, 2).confidence == 1
    assert most_likely(blocks(4), 5, 2) is None


@pytest.mark.parametrize(
    ("group", "server", "shape"),
    [
        ([0, 1, 0, 1], [0, 0, 1, 1], (4, 2)),
        ([0, 1, -1, -1, 0, 1], [0, 0, 0, 0, 1, 1], (6, 2)),
        ([0, -1, 0, -1], [0, 0, 1, 1], (4, 2)),
        ([0, 1, 0, 1, -1], [0, 0, 1, 1, 2], (4, 2)),
    ],
)
def test_ranks_in_no_ring_count_where_others_of_their_server_are_in_one(group, server, shape):
    """The last server of the last case has none; in the third one, no exporter saw a ring."""
    group, server = np.array(group), np.array(server)
    own = np.isin(server, server[group >= 0])
    assert _shape_of_stage(group, server, own, 2, 2) == shape
