"""The cost of each change of a what-if comparison, from the truth of its simulations.

For each job, over the iterations (:mod:`~prism_sim.studies.progress`) that both simulations
completed:

- *step time* [s]: from the job's start to the end of the last iteration on all ranks, divided by
  the number of iterations; it includes host work, checkpoints, and the time of lost steps;
- *extra time* [s]: the difference of that time between the two simulations;
- *GPU-hours*: the extra time, multiplied by the GPUs of the job;
- *effective training time ratio*: the share of the time that ranks spent in steps that count.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prism_sim.run_folder import Run
from prism_sim.studies.progress import JobProgress, progress_of
from prism_sim.studies.whatif import Contrast, Plan

UNITS = {
    "step_s_with": "s",
    "step_s_without": "s",
    "slower": "fraction of step_s_without",
    "extra_s": "s",
    "gpu_hours": "h",
    "effective_ratio_with": "fraction of the time since the job's start",
    "effective_ratio_without": "fraction of the time since the job's start",
}
"""Unit of each figure of a job."""


def compare(plan: Plan, out: Path) -> dict[str, Any]:
    """The result of each comparison in ``plan``, read from the runs below ``out``.

    Returns the content of ``whatif.json``: for each contrast the total cost (``gpu_hours``, summed
    over jobs) and that of each job, and for each simulation the time at which each iteration of
    each job ended, from the job's start [s].
    """
    scenario = plan.variants[0].scenario
    sides = {
        variant.folder: _Side(
            progress_of(Run(out / variant.folder)),
            {job.name: job.ranks for job in variant.scenario.jobs},
        )
        for variant in plan.variants
    }
    return {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "units": UNITS,
        "costs": [_cost(contrast, sides) for contrast in plan.contrasts],
        "step_ends_s": {
            name: {job: done.ends_s.tolist() for job, done in side.progress.items()}
            for name, side in sides.items()
        },
    }


@dataclass(frozen=True)
class _Side:
    """One simulation of a contrast: progress and number of GPUs, by job."""

    progress: dict[str, JobProgress]
    gpus: dict[str, int]


def _cost(contrast: Contrast, sides: dict[str, _Side]) -> dict[str, Any]:
    with_, without = sides[contrast.with_], sides[contrast.without]
    common = [job for job in with_.progress if job in without.progress]
    jobs = [cost for job in common if (cost := _cost_of_job(job, with_, without))]
    names = {"name": contrast.name, "with": contrast.with_, "without": contrast.without}
    return {**names, "gpu_hours": sum(job["gpu_hours"] for job in jobs), "jobs": jobs}


def _cost_of_job(job: str, with_: _Side, without: _Side) -> dict[str, Any] | None:
    """The cost for one job; None if the two simulations have no iteration of it in common."""
    done = [side.progress[job] for side in (with_, without)]
    lengths = [len(one.ends_s) for one in done]
    steps = min(lengths)
    if not steps:
        return None
    slow_s, fast_s = (float(one.ends_s.iloc[steps - 1]) for one in done)
    ratios = [one.effective_training_time_ratio(steps) for one in done]
    return {
        "job": job,
        "steps": steps,
        "steps_with": lengths[0],
        "steps_without": lengths[1],
        "step_s_with": slow_s / steps,
        "step_s_without": fast_s / steps,
        "slower": slow_s / fast_s - 1 if fast_s else None,
        "extra_s": slow_s - fast_s,
        "gpu_hours": (slow_s * with_.gpus[job] - fast_s * without.gpus[job]) / 3600,
        "effective_ratio_with": ratios[0],
        "effective_ratio_without": ratios[1],
    }
