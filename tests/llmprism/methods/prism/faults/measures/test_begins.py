"""Collectives of a step begin less alike where the work of each layer is divided again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llmprism.methods.prism.faults.measures.begins import vary_more

STEPS, CONNECTIONS = 24, 4
SLOW = slice(8, 16)
STEP_NS, FLAT_NS = 100e6, 5e6
LATER_NS = FLAT_NS * np.arange(CONNECTIONS)[:, None]  # each begins a few layers after the other


def job_of(begins_ns: Any, *, longer: float = 1.2) -> tuple[Any, Any]:
    """A job whose connections begin at given times of each step; steps ``SLOW`` are longer."""
    duration = np.full(STEPS, STEP_NS)
    duration[SLOW] *= longer
    origin = np.concatenate(([0.0], np.cumsum(duration)[:-1]))
    start = np.rint(begins_ns + origin).astype(np.int64).ravel()
    rows = np.arange(start.size)
    one = SimpleNamespace(connections=np.arange(CONNECTIONS), traffic=SimpleNamespace(row=rows))
    part = SimpleNamespace(kind="dp", one=one, cells=lambda *_: (rows, rows))
    job = SimpleNamespace(
        name="job-0", count=STEPS, duration_ns=duration,
        phases=SimpleNamespace(classes=[part]), ranks=SimpleNamespace(origin_ns=0),
    )  # fmt: skip
    flows = SimpleNamespace(start_ns=start, end_ns=start + 1_234_567)
    return SimpleNamespace(flows=flows, connections=None, measured={}), job


def begins_of(seed: int, inside: Any) -> Any:
    """Begins that vary by 1 % of the passes between them; those in ``SLOW`` times ``inside``."""
    stream = np.random.default_rng(seed)
    begins = LATER_NS * (1 + 0.01 * stream.standard_normal((CONNECTIONS, STEPS)))
    begins[:, SLOW] *= inside
    return begins


@pytest.mark.parametrize("seed", range(5))
def test_layers_that_divide_their_work_again_make_begins_vary(seed):
    shares = np.random.default_rng(90 + seed).lognormal(0.2, 0.2, (CONNECTIONS, 8))
    assert vary_more(*job_of(begins_of(seed, shares)), 8, 15)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [1.0, 1.2, 2.0])
def test_a_slow_part_makes_passes_longer_by_as_much_in_each_step(seed, factor):
    assert not vary_more(*job_of(begins_of(seed, factor), longer=factor), 8, 15)


def test_begins_that_vary_by_too_little_do_not_explain_far_longer_steps():
    begins = LATER_NS + np.zeros((CONNECTIONS, STEPS))
    begins[:, SLOW] += 2e4 * np.random.default_rng(1).standard_normal((CONNECTIONS, 8))
    assert vary_more(*job_of(begins, longer=1.02), 8, 15)
    assert not vary_more(*job_of(begins, longer=2.0), 8, 15)


def test_a_coarse_clock_and_few_steps_show_nothing():
    shares = np.random.default_rng(3).lognormal(0.2, 0.2, (CONNECTIONS, 8))
    begins = begins_of(0, shares)
    assert not vary_more(*job_of(begins), 8, 10)
    context, job = job_of(begins)
    context.flows.start_ns = context.flows.start_ns // 10**7 * 10**7
    context.flows.end_ns = context.flows.start_ns
    assert not vary_more(context, job, 8, 15)


def test_a_job_without_data_parallel_traffic_shows_nothing():
    context, job = job_of(begins_of(0, 1.0))
    job.phases.classes = []
    assert not vary_more(context, job, 8, 15)
