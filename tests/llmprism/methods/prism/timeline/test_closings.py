"""What ends a step after its gradients: shared embeddings, norms and losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.methods.prism.phases.moments import MISSING
from llmprism.methods.prism.timeline.closings import Closings, with_closings
from step_ends import steps_beside_truth
from worlds import effects, model, rail, solo

MS = 1_000_000
SEEN = np.zeros(2, np.bool_)
TIED = {"model": model(8, 1024, 8, 64000, 1024), "pp": 4, "sync_embeddings": True}


def world(cluster, collector=None, **keys) -> str:
    """A pipeline of two replicas."""
    fixed = {"dp": 2, "zero_stage": 0, "micro_batches": 6, "steps": 8, "mfu": 0.4}
    return solo(cluster, collector, compute_jitter=0.01, **fixed, **keys)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [True, False])
def test_a_step_ends_with_the_update_after_its_last_collective(scored, norm):
    run = scored(world(rail(8, nic_gbps=200), gradient_norm=norm, **TIED))
    both = steps_beside_truth(run)
    assert len(both) == 8 * 8
    assert np.abs(both["end_ns_found"] - both["end_ns"]).max() < 0.1 * MS
    first = both[(both["pp"] == 0) & (both["step"] > 0)]
    assert np.abs(first["start_ns_found"] - first["start_ns"]).max() < 0.5 * MS


def errors(run):
    """End of each step of each rank as found, less the true one [ns]."""
    both = steps_beside_truth(run)
    return both["end_ns_found"] - both["end_ns"]


@pytest.mark.slow
def test_a_norm_has_the_small_packets_of_an_answer_to_gradients(scored):
    """Between two stages it goes the way of activations, and beside the gradients of others."""
    packets = {"effects": effects("headers")}
    run = scored(world(rail(8, nic_gbps=200), packets, gradient_norm=True, **TIED))
    assert np.abs(errors(run)).max() < 0.1 * MS


@pytest.mark.slow
def test_a_norm_may_wait_for_gradients_that_servers_reduce_inside(scored):
    """The first stage ends its passes last, the others wait for it a backward pass each."""
    keys = {"model": model(6, 2048, 16, 32000, 2048), "pp": 3, "gradient_norm": True}
    found = errors(scored(world(rail(3, 2, nic_gbps=200), **keys)))
    assert np.abs(found).max() < 1 * MS


def closings(starts_ms, steps, growing=0) -> Closings:
    """One connection from rank 0 to rank 1, with a record in each of ``steps`` of 100 ms.

    Gradients end after 60 ms of each step, and the next step begins after its 100 ms.
    """
    start = (100 * np.arange(steps) + np.asarray(starts_ms)) * MS
    zeros = np.zeros(steps, np.int64)
    begin = np.append(100 * np.arange(1, steps), 0) * MS
    begin[-1] = MISSING
    return Closings(
        zeros, zeros, zeros + 1, start.astype(np.int64), (start + MS).astype(np.int64),
        1000 + growing * np.arange(steps), np.tile(begin, (2, 1)), np.array([steps]),
    )  # fmt: skip


def ends(steps: int) -> np.ndarray:
    return np.tile(100.0 * np.arange(steps) + 60, (2, 1)) * MS


def test_what_follows_the_gradients_at_once_in_every_step_ends_it():
    later = with_closings(closings(61, 10), ends(10), 0, SEEN)
    assert later == pytest.approx(ends(10) + 2 * MS)


def test_what_comes_after_the_update_does_not():
    assert with_closings(closings(85, 10), ends(10), 0, SEEN) == pytest.approx(ends(10))


def test_a_collective_comes_in_all_steps_of_its_attempt():
    """A job that restarts after 4 of 10 steps opens other connections."""
    all_steps = closings(61, 10)
    records = {
        name: getattr(all_steps, name)[:4]
        for name in ("line", "src", "dst", "start_ns", "end_ns", "size")
    }
    later = with_closings(replace(all_steps, **records, lasts=np.array([4])), ends(10), 0, SEEN)
    assert later - ends(10) == pytest.approx(np.tile([2 * MS] * 4 + [0] * 6, (2, 1)))


def test_what_comes_in_some_steps_does_not():
    often = closings([61] * 7 + [30] * 3, 10)
    assert with_closings(often, ends(10), 0, SEEN) == pytest.approx(ends(10))


def test_what_differs_in_bytes_does_not():
    service = closings(61, 10, growing=100)
    assert with_closings(service, ends(10), 0, SEEN) == pytest.approx(ends(10))


def test_a_rank_waits_for_the_one_that_ends_later():
    """Rank 1 ends its gradients 20 ms after rank 0: the record begins then."""
    own = ends(10)
    own[1] += 20 * MS
    later = with_closings(closings(81, 10), own, 0, SEEN)
    assert later == pytest.approx(np.tile(own[1] + 2 * MS, (2, 1)))


def test_what_follows_after_a_reduction_inside_servers_ends_the_step():
    later = with_closings(closings(85, 10), ends(10), 0, ~SEEN)
    assert later == pytest.approx(ends(10) + 26 * MS)


def test_what_begins_just_before_the_next_step_does_not():
    assert with_closings(closings(95, 10), ends(10), 0, ~SEEN) == pytest.approx(ends(10))


def test_an_embedding_may_be_reduced_while_other_stages_begin_the_next_step():
    """Stage 2 gathers parameters from 70 ms on, when the first and the last stage still wait."""
    one = closings(61, 10)
    own = np.vstack((ends(10), ends(10)[:1]))
    begin = np.vstack((one.begin_ns, one.begin_ns[:1] - 38 * MS))
    later = with_closings(replace(one, begin_ns=begin), own, 0, np.zeros(3, np.bool_))
    assert later == pytest.approx(own + 2 * MS * np.array([[1], [1], [0]]))
