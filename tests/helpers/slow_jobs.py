"""Jobs made by hand, some of whose steps are longer: what findings are tested with."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

STEPS = 40
STEP_NS = 100e6


def job_with(slow: Mapping[tuple[int, int], float]) -> Any:
    """A job some stretches of which are slower by a share."""
    steps_ns = STEP_NS * (1 + 0.002 * np.random.default_rng(3).standard_normal(STEPS))
    for (first, last), share in slow.items():
        steps_ns[first : last + 1] += share * STEP_NS
    ends_ns = np.cumsum(steps_ns).astype(np.int64)
    job = SimpleNamespace(name="job-0", count=STEPS, duration_ns=steps_ns, tick_ns=0.0)
    job.period_ns = STEP_NS
    job.between_ends_ns = steps_ns
    job.start_ns, job.end_ns = ends_ns - steps_ns.astype(np.int64), ends_ns
    job.phases = SimpleNamespace(endpoints=np.arange(4))
    job.pipelines = SimpleNamespace(number=np.full(4, -1), length=2)
    return job
