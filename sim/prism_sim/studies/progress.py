"""Progress of a job through its training: when each iteration was done, and how much time counted.

An *iteration* is one step of the training itself. Each step of the truth computes one; after a
restart, the iterations that no checkpoint has are computed again, as new steps. The earlier steps
are *lost*.

The *effective training time ratio* is the time that ranks spent in steps that were not lost,
divided by the time since the job's start. Checkpoints, stalls between steps, lost steps and the
time without a running attempt lower it. A slow step lowers it only if it is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prism_sim.run_folder import Run

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class JobProgress:
    """The iterations of one job, in their order.

    Attributes
    ----------
    ends_s : end of each iteration on all ranks, from the job's first start [s].
    in_steps_s : mean time of a rank in the step that computed it [s].
    """

    ends_s: pd.Series
    in_steps_s: pd.Series

    def effective_training_time_ratio(self, iterations: int) -> float | None:
        """The effective training time ratio of the first ``iterations``; None without any."""
        if not iterations:
            return None
        return float(self.in_steps_s.iloc[:iterations].sum() / self.ends_s.iloc[iterations - 1])


def progress_of(run: Run) -> dict[str, JobProgress]:
    """The progress of each job of a simulated run.

    Steps that some rank did not complete (the simulation or the attempt ended first) are left out.
    """
    attempts = run.read_json(run.manifest).get("attempts", {}) if run.manifest.exists() else {}
    return {
        str(job): _progress(steps, attempts.get(str(job), []))
        for job, steps in run.truth("steps").groupby("job")
    }


def _progress(steps: pd.DataFrame, attempts: list[dict[str, int]]) -> JobProgress:
    """The progress of one job, from its rows of the truth's ``steps``."""
    duration_ns = steps["end_ns"] - steps["start_ns"]
    table = steps.assign(duration_ns=duration_ns).groupby("step").agg(
        ranks=("rank", "size"), end_ns=("end_ns", "max"), duration_ns=("duration_ns", "mean")
    )  # fmt: skip
    table = table[table["ranks"] == steps["rank"].nunique()]
    iterations, kept = _iterations(table.index.to_numpy(), attempts)
    table = table.assign(iteration=iterations)[kept].set_index("iteration").sort_index()
    start_ns = steps["start_ns"].min()
    return JobProgress((table["end_ns"] - start_ns) / 1e9, table["duration_ns"] / 1e9)


def _iterations(steps: Any, attempts: list[dict[str, int]]) -> tuple[Any, Any]:
    """The iteration that each step computes, and whether its result was kept."""
    attempts = attempts or [{"first_step": 0, "lost_steps": 0}]
    first = np.array([attempt["first_step"] for attempt in attempts])
    lost = np.array([attempt["lost_steps"] for attempt in attempts])
    number = np.searchsorted(first, steps, "right") - 1
    iterations = steps - lost[number]
    begins = [*(first - lost)[1:], math.inf]  # iteration with which the next attempt begins
    limits = np.minimum.accumulate(begins[::-1])[::-1]
    return iterations, iterations < limits[number]
