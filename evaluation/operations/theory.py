"""Closed forms beside simulations, for the page."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from prism_sim.operations import theory
from prism_sim.operations.job import Job
from prism_sim.operations.study import Study
from prism_sim.render.markdown import table

TABLE_7 = ((454, 46), (545, 51), (635, 54), (768, 65))
"""ByteRobust's Table 7: restart by requeueing and by hot update [s], 128 to 1,024 servers."""

_CASES = ((108, 22.9, 1, 15), (474, 23.9, 0.6, 15), (108, 60, 2, 15))
_WORK_MIN = (6.0, 9.0, 12.0, 14.0, 16.0, 22.0, 33.0)
_SEEDS = 4


def tables() -> dict[str, str]:
    """Tables in Markdown, by name."""
    return {"exact": _exact(), "optimum": _optimum(), "standby": _standby(), "meta": _meta()}


def _exact() -> str:
    rows = [
        [
            *(f"{value:g}" for value in case),
            f"{theory.ettr(work, stall, restart, mttf):.3f}",
            f"{simulated(*case):.3f}",
            f"{theory.approximate_ettr(work, stall, restart, mttf):.3f}",
        ]
        for case in _CASES
        for mttf, work, stall, restart in [case]
    ]
    head = ["MTTF [min]", "work", "checkpoint", "restart", "exact form", "simulated"]
    return table([*head, "Meta's approximation"], rows, numbers_right=True)


def _optimum() -> str:
    ratios = {work: simulated(108, work, 1, 15) for work in _WORK_MIN}
    rows = [[f"{work:g}", f"{theory.ettr(work, 1, 15, 108):.4f}", f"{found:.4f}"]
            for work, found in ratios.items()]  # fmt: skip
    return table(["work [min]", "exact form", "simulated"], rows, numbers_right=True)


def _standby() -> str:
    servers = (128, 256, 512, 1024)
    rows = [
        [f"{faulty:g}", *(str(theory.standby_size(size, faulty, 0.99)) for size in servers)]
        for faulty in (0.0011, 0.00117, 0.0012, 0.00125, 0.0014)
    ]
    return table(["faulty part", *map(str, servers)], rows, numbers_right=True)


def _meta() -> str:
    rows = [
        [f"{gpus:,}", published, f"{theory.mttf_s(gpus // 8, 0.0065) / 3600:.2f}"]
        for gpus, published in ((1024, "7.9"), (16_384, "1.8"), (131_072, "0.23"))
    ]
    return table(["GPUs", "published [h]", "from 6.5 failures in 1,000 server-days [h]"], rows)


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
