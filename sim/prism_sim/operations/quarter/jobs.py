"""Jobs of a quarter, drawn beforehand: when they come, what they need, and how they end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_sim.draws import Draws
from prism_sim.operations.quarter.study import JobType, Quarter
from prism_sim.operations.theory import SECONDS_A_DAY

COMPLETED, CANCELLED, FAILED = "completed", "cancelled", "failed"


@dataclass(frozen=True)
class Job:
    """A job that comes at ``at_s`` and holds ``gpus`` for ``run_s``, if it is started.

    ``by_server`` is true if a faulty server ends it.
    """

    at_s: float
    type: JobType
    gpus: int
    run_s: float
    outcome: str
    by_server: bool = False


def jobs_of(study: Quarter, seed: int) -> list[Job]:
    """All jobs, by time."""
    draws = Draws(seed)
    jobs = [job for one in study.types for job in _jobs_of(study, one, draws)]
    return sorted(jobs, key=lambda job: job.at_s)


def _jobs_of(study: Quarter, one: JobType, draws: Draws) -> list[Job]:
    """Jobs of one type, which come in batches at times of a Poisson process."""
    stream = draws.stream("submissions", one.name)
    expected = study.jobs_per_day * study.days * one.share / one.batch
    times_s = stream.random(stream.poisson(expected)) * study.days * SECONDS_A_DAY
    at_s = np.repeat(times_s, one.batch).tolist()
    units = one.spread.unit(draws.stream("run", one.name), len(at_s)).tolist()
    luck = draws.stream("outcomes", one.name).random((len(at_s), 3)).tolist()
    rows = zip(at_s, units, luck, strict=True)
    return [_job(study, at, one, unit, numbers) for at, unit, numbers in rows]


def _job(study: Quarter, at_s: float, one: JobType, unit: float, luck: list[float]) -> Job:
    """A job that ends by itself, by an error of its own, by people, or by a faulty server."""
    numbers = list(one.gpus)
    weights = np.cumsum(list(one.gpus.values()))
    gpus = numbers[int(np.searchsorted(weights, luck[0] * weights[-1], side="right"))]
    run_s, outcome = one.run_s * unit, COMPLETED
    if luck[1] < one.fails:
        run_s, outcome = run_s * one.fails_at, FAILED
    elif luck[1] < one.fails + one.cancelled:
        outcome = CANCELLED
    rate = study.per_server_day * gpus / study.gpus_per_server / SECONDS_A_DAY
    broken_s = float(-np.log1p(-luck[2]) / rate) if rate else float("inf")
    if broken_s < run_s:
        return Job(at_s, one, gpus, broken_s, FAILED, by_server=True)
    return Job(at_s, one, gpus, run_s, outcome)
