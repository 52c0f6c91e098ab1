"""What the NICs of a server are to each other, and how sure that is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llmprism.methods.prism.layout.inside_servers import _confidence, _guessed, _lockstep, _most
from llmprism.methods.prism.layout.replicas import Replicas
from llmprism.methods.prism.layout.ring_sizes import RingShare

WORLD = """\
cluster: {servers: 4, gpus_per_server: %d, nics_per_server: %d, fabric: {kind: rail, leaf_ports: 8}}
collector: {%s}
jobs:
  - {name: solo, model: {layers: 8, hidden: 2048, heads: 16, vocab: 32000, sequence_length: 2048},
     mfu: 0.45, compute_jitter: 0.01, step_overhead_ms: 5, steps: 6, micro_batches: 2, %s}
"""
ONE_EACH, MERGED = RingShare(1, 2, 1.0, 4), RingShare(2, 2, 1.0, 8)


def numbered(*servers):
    """Replicas of servers, by the numbers of their NICs."""
    return [Replicas(np.arange(len(one)), np.array(one), True) for one in servers]


def test_groups_of_one_size_agree_and_others_mislead():
    seen = SimpleNamespace(stage=np.zeros(16, np.int64))
    assert _lockstep(numbered([0, 0, 1, 1], [0, 0, 1, 1]), seen) == (2, True, 1.0)
    assert _lockstep(numbered([0, 0, 1, 1], [0, 0, 1, 2]), seen) == (2, True, 0.75)


def test_a_guess_in_a_pipeline_is_the_less_sure_the_less_gradients_show():
    pipeline, none = SimpleNamespace(length=2), SimpleNamespace(length=1)
    seen = SimpleNamespace(dp_group=np.array([0, 1, -1]))
    unseen = SimpleNamespace(dp_group=np.array([-1, -1, -1]))
    assert _guessed(unseen, pipeline) < 0.5 < _guessed(seen, none) < _guessed(seen, pipeline) < 0.8


def test_a_ring_for_each_nic_is_sure_only_if_servers_do_not_reduce_by_themselves():
    doubtful, sharded = _confidence(ONE_EACH, False, False), _confidence(ONE_EACH, False, True)
    assert doubtful < 0.7 < 0.9 < sharded
    assert _confidence(MERGED, False, False) > 0.9


@pytest.mark.slow
def test_replicas_of_a_pipeline_are_found_though_servers_reduce_by_themselves(scored):
    keys = "dp: 4, pp: 2, zero_stage: 0, all_reduce: hierarchical"
    (layout,) = scored(WORLD % (2, 2, "", keys)).diagnosis.layouts.itertuples()
    assert (layout.dp, layout.pp, layout.tp) == (4, 2, 1)
    assert layout.confidence > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "sure"),
    [("dp: 2, pp: 2", 0.9), ("dp: 2, pp: 2, ep: 2, moe: {experts: 8, top_k: 1}", 0.3)],
)
def test_ranks_that_only_servers_join_are_no_sure_replicas(scored, keys, sure):
    """Those that share experts differ by far less than one pass varies."""
    world = WORLD.replace("servers: 4", "servers: 2") % (2, 2, "", keys)
    (layout,) = scored(world).diagnosis.layouts.itertuples()
    assert 0.2 < layout.confidence <= sure


def test_replicas_are_surest_if_they_vary_as_much_as_other_servers():
    assert _most(1, 1, np.nan) > _most(2, 1, 1.2) > 0.95
    assert _most(2, 2, np.nan) == _most(2, 1, 1.2)  # all NICs send together
    assert 0.85 < _most(2, 1, np.nan) < 0.95
    assert _most(2, 1, 0.3) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpus", "collector", "keys", "sure"),
    [
        (2, "", "dp: 4, tp: 2, zero_stage: 1", True),
        (2, "", "dp: 8, zero_stage: 0, all_reduce: hierarchical", False),
        (1, "effects: [{kind: headers}, {kind: sampling, one_in: 100}]", "dp: 4", True),
        (4, "effects: [{kind: headers}, {kind: sampling, one_in: 100}]", "dp: 16", False),
    ],
)
def test_the_confidence_says_whether_flows_show_the_layout(scored, gpus, collector, keys, sure):
    (layout,) = scored(WORLD % (gpus, gpus, collector, keys)).diagnosis.layouts.itertuples()
    assert (layout.confidence > 0.9) == sure
    assert sure or layout.confidence < 0.75


@pytest.mark.slow
def test_replicas_on_servers_with_different_numbers_of_gpus_are_counted(scored):
    """Two jobs of six replicas fill three servers of four GPUs."""
    two = (
        "dp: 6}\n" + WORLD.partition("jobs:\n")[2].replace("solo", "other") % "start_s: 0.3, dp: 6"
    )
    run = scored(WORLD.replace("servers: 4", "servers: 3") % (4, 4, "", two.rstrip().rstrip("}")))
    assert run.diagnosis.layouts[["dp", "pp", "tp"]].to_numpy().tolist() == [[6, 1, 1]] * 2
    assert run.diagnosis.layouts["confidence"].min() > 0.9
