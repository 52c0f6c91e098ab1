"""Bytes in memory between matrix products, counted by hand, and their time."""

import pytest

from prism_sim.loading.job import Job
from prism_sim.scenario.cluster import Cluster
from prism_sim.training.costs import stage_costs, step_flops
from prism_sim.training.kernels import layer_memory_ns
from prism_sim.training.layers import attention_flops

MEMORY = {"memory_gbytes_per_s": 2000.0}
SIZES = {"layers": 4, "hidden": 64, "heads": 4, "vocab": 128, "sequence_length": 32}


def _job(**changes: object) -> Job:
    values = {"name": "a", "model": SIZES, "micro_batches": 1, "steps": 1, "kernels": "unfused"}
    return Job.model_validate(values | changes)


def _bytes(job: Job, moe: bool = False) -> float:
    return layer_memory_ns(job, moe, Cluster(servers=1, gpu=MEMORY)) * 2000.0


def test_a_layer_moves_the_bytes_of_each_of_its_operations() -> None:
    """A token: two norms (4 x 64 each), two sums with dropout (13 - 6 = 7 x 64), GeLU (4 x 256),
    and 13 bytes a score of 4 heads and 32 tokens."""
    between, inside, scores = 2 * (4 + 7) * 64, 4 * 256, 13 * 4 * 32
    assert _bytes(_job()) == pytest.approx(32 * (between + inside + scores))
    assert _bytes(_job(tp=4)) == pytest.approx(32 * (between + (inside + scores) / 4))
    shared = _bytes(_job(tp=4, sequence_parallel=True))
    assert shared == pytest.approx(32 * (between + inside + scores) / 4)


def test_fused_kernels_keep_scores_on_the_chip_and_skip_masked_ones() -> None:
    fused, unfused = _job(kernels="fused"), _job()
    assert _bytes(fused) == pytest.approx(32 * (2 * (4 + 6) * 64 + 4 * 256))
    assert attention_flops(fused) == attention_flops(unfused) / 2
    assert step_flops(fused) < step_flops(unfused)


def test_experts_are_paid_for_by_how_many_a_token_meets() -> None:
    job = _job(moe={"experts": 8, "top_k": 2, "shared": 1, "hidden": 32}, kernels="fused")
    inside = 4 * 32 * 3 + 8 * 2 * 64
    assert _bytes(job, moe=True) == pytest.approx(32 * (2 * (4 + 6) * 64 + inside))


@pytest.mark.parametrize(("recompute", "again"), [("none", 0), ("selective", 1), ("full", 2)])
def test_backward_moves_twice_the_bytes_and_those_of_recomputation(
    recompute: str, again: int
) -> None:
    """The memory time of a pass is its time with free products."""
    cluster = Cluster(servers=1, gpu={"peak_tflops": 1e9, **MEMORY})
    (cost,) = stage_costs(_job(recompute=recompute), cluster)
    whole, scores = 32 * (2 * 11 * 64 + 4 * 256 + 13 * 4 * 32), 32 * 13 * 4 * 32
    forward = 4 * whole / 2000.0
    extra = (0, 4 * scores / 2000.0, forward)[again]
    assert cost.forward_ns == pytest.approx(forward, rel=1e-4)
    assert cost.backward_ns == pytest.approx(2 * forward + extra, rel=1e-4)


def test_ideal_kernels_cost_nothing() -> None:
    assert _bytes(_job(kernels="ideal")) == 0
