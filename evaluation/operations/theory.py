"""Closed forms beside simulations, for the page."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from prism_sim.operations import theory
from prism_sim.operations.job import Job
from prism_sim.operations.study import Study

TABLE_7 = ((454, 46), (545, 51), (635, 54), (768, 65))
"""ByteRobust's Table 7: restart by requeueing and by hot update [s], 128 to 1,024 servers."""

_SEEDS = 4


def simulated(mttf_min: float, work_min: float, stall_min: float, restart_min: float) -> float:
    """The mean ETTR of a job with exponential failures that are known at once."""
    policy: dict[str, Any] = {
        "name": "only",
        "checkpoint": {
            "kind": "sync",
            "stall_s": 60 * stall_min,
            "interval": {"kind": "fixed", "every_s": 60 * work_min},
        },
        "detection": {"kind": "timeout", "error_s": 0},
        "localisation": "by_hand",
        "recovery": {"kind": "requeue", "requeue_s": 60 * restart_min},
    }
    rate = theory.SECONDS_A_DAY / (100 * mttf_min * 60)
    failures = {"per_server_day": rate, "causes": ["CPU out of memory"]}
    study = Study.model_validate(
        {"servers": 100, "days": 1000, "failures": failures, "policies": [policy]}
    )
    ends_s = study.days * theory.SECONDS_A_DAY
    runs = (Job(study, study.policies[0], seed).run()[1] for seed in range(_SEEDS))
    return fmean(progress.work_s for progress in runs) / ends_s
