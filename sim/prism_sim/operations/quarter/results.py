"""Statistics of a cluster, as Acme has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from prism_sim.operations.quarter.jobs import CANCELLED, COMPLETED, FAILED
from prism_sim.operations.quarter.scheduling import Queue
from prism_sim.operations.quarter.study import Quarter
from prism_sim.operations.theory import SECONDS_A_DAY
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUTCOMES = (COMPLETED, CANCELLED, FAILED)


def table_of(study: Quarter) -> pd.DataFrame:
    """A row for each job of each seed."""
    seeds = range(1, study.seeds + 1)
    return pd.concat([pd.DataFrame(Queue(study, seed).run()).assign(seed=seed) for seed in seeds])


def summary(study: Quarter, table: pd.DataFrame) -> dict[str, float]:
    """Figures of the whole cluster; those of ``cluster_summary.csv`` have its names."""
    gpu_s = table["gpu_s"].sum()
    by_outcome = table.groupby("outcome")
    jobs, time = by_outcome.size() / len(table), by_outcome["gpu_s"].sum() / gpu_s
    rates = dict(zip(OUTCOMES, ("complete", "cancel", "fail"), strict=True))
    capacity_s = study.gpus * study.days * SECONDS_A_DAY * study.seeds
    failed = table[table["outcome"] == FAILED]
    found = {
        "gpu_job_num": len(table) / study.seeds,
        "avg_run_time_gpu": table["run_s"].mean(),
        "avg_que_time_gpu": table["queue_s"].mean(),
        "avg_gpu_num": table["gpus"].mean(),
        "med_run_time_gpu": table["run_s"].median(),
        "med_que_time_gpu": table["queue_s"].median(),
        **{f"{rates[name]}_rate_gpu": float(jobs.get(name, 0.0)) for name in OUTCOMES},
        **{f"{rates[name]}_rate_gpu_time": float(time.get(name, 0.0)) for name in OUTCOMES},
        "by_server_rate_of_failed": _part(failed["by_server"].sum(), len(failed)),
        "by_server_rate_of_failed_gpu_time": _part(
            failed.loc[failed["by_server"], "gpu_s"].sum(), failed["gpu_s"].sum()
        ),
        "utilisation": gpu_s / capacity_s,
    }
    return {name: float(value) for name, value in found.items()}


def _part(some: float, everything: float) -> float:
    return some / everything if everything else 0.0


def by_type(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each type: its part of jobs and of GPU time, and its mean time in the queue."""
    groups = table.groupby("type")
    found = pd.DataFrame(
        {
            "jobs": groups.size() / len(table),
            "gpu_time": groups["gpu_s"].sum() / table["gpu_s"].sum(),
            "mean_gpus": groups["gpus"].mean(),
            "queue_s": groups["queue_s"].mean(),
        }
    )
    return found.sort_values("jobs", ascending=False)


@paint.styled
def draw(table: pd.DataFrame) -> Figure:
    """Jobs and GPU time by type, GPU time by outcome, and times in the queue."""
    import seaborn as sns

    made = paint.figure(11, 3.4)
    left, middle, right = made.subplots(1, 3)
    shares = by_type(table)[["jobs", "gpu_time"]].rename(columns={"gpu_time": "GPU time"})
    long = shares.reset_index().melt("type", var_name="of", value_name="part")
    sns.barplot(long, x="part", y="type", hue="of", palette="muted", ax=left)
    left.set(xlabel="part", ylabel="")
    left.legend(title="")
    time = table.groupby("outcome")[["gpu_s"]].sum().reset_index()
    time["part"] = time["gpu_s"] / time["gpu_s"].sum()
    sns.barplot(time, x="part", y="outcome", order=OUTCOMES, color=paint.KINDS["pp"], ax=middle)
    middle.set(xlabel="part of GPU time", ylabel="")
    waits = table.assign(minutes=table["queue_s"] / 60)
    order = list(by_type(table).index)
    sns.barplot(waits, x="minutes", y="type", order=order, errorbar=None, ax=right,
                color=paint.KINDS["pp"])  # fmt: skip
    right.set(xlabel="mean time in the queue [min]", ylabel="")
    return made
