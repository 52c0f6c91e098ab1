"""What a real capture allows at most, apart from any method.

- Exports: whether jobs are right, and the period where records hold several steps.
- Known windows: the DP-end error of a reader that knows the truth. It knows the pairs, and when
  each rank was in the all-reduces of each step. As the end of these it takes the last byte that the
  rank receives in records that overlap them. Two things keep it from the true end: processes that
  notice the end late, as they share the cores of one machine, and records that bridge silences.
- Host work (data loading, logging), which no flow shows. It comes before the first pass of a step.
  Without a pipeline nothing distinguishes it from computation, so all of it may be missing. With
  one, the first stage shows when it begins to compute; a quarter may be missing in the others.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from llmprism.pipeline import diagnose
from prism_sim.score.busy import true_work
from prism_sim.toolkit import Run, load_tables, match_steps, samples_of, score_run

EXPORT = "flows_netflow.parquet"
MS = 1e6
COLUMNS = ("capture", "job", "jobs exact", "timeline", "period", "true period", "error")


def export_rows(cases: Iterable[Path]) -> list[list[str]]:
    """Rows of the page, one for each job of each capture that was exported as NetFlow.

    The true period is the median time between the ends of a rank's steps, faults included.
    """
    with tempfile.TemporaryDirectory() as temporary:
        return [
            row
            for case in cases
            if (case / EXPORT).exists()
            for row in _rows(case, Path(temporary) / case.name)
        ]


def _rows(case: Path, folder: Path) -> Iterator[list[str]]:
    shutil.copytree(case, folder)
    run = Run(folder)
    diagnosis = diagnose(case / EXPORT, run.topology, method="prism")
    diagnosis.write(run.diagnosis_folder)
    score = score_run(run).to_json()
    layouts = diagnosis.layouts.set_index("job")["period_ns"]
    true_ns = run.truth("steps").groupby(["job", "rank"])["end_ns"].diff().dropna()
    median_ns = true_ns.groupby(run.truth("steps")["job"]).median()
    exact = f"{score['jobs']['exact']} of {score['jobs']['true']}"
    for job in score["parallelism"]["jobs"]:
        period_ns = layouts.get(job["found"], -1)
        known = period_ns > 0
        yield [
            f"`{case.name}`",
            job["job"],
            exact,
            "given" if (diagnosis.steps["job"] == job["found"]).any() else "refused",
            f"{period_ns / MS:.0f} ms" if known else "-",
            f"{median_ns[job['job']] / MS:.0f} ms",
            f"{100 * (period_ns / median_ns[job['job']] - 1):+.1f} %" if known else "-",
        ]


Records = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
LEAST_BYTES = 1000  # of a record that holds gradients: less are acknowledgements and control


def known_windows_error(run: Run) -> float | None:
    """Mean relative error of the time from DP end to DP end; None where the truth has no such end.

    ``run`` has been diagnosed, as all runs that are scored.
    """
    case = load_tables(run)
    work = true_work(case)["dp"].groupby(["rank_row", "step"])
    windows = work.agg(start=("start_ns", "min"), end=("own_end_ns", "max")).reset_index()
    if windows.empty:
        return None
    received = _received(run.flows, case.truth["pairs"])
    address = case.truth["ranks"]["address"]
    windows["read"] = [
        _last_end(received.get(str(address[row.rank_row])), row.start, row.end)
        for row in windows.itertuples()
    ]
    periods = windows.groupby("rank_row")[["end", "read"]].diff().dropna()
    return float(((periods["read"] - periods["end"]).abs() / periods["end"]).mean())


def _received(flows: Path, pairs: pd.DataFrame) -> dict[str, Records]:
    """Starts and ends [ns] of the records of gradients that each address receives."""
    table = pd.read_parquet(flows).astype({"src": str, "dst": str})
    size = table["payload"] if "payload" in table else table["bytes"]
    dp = pairs.loc[pairs["kind"] == "dp", ["src", "dst"]].astype(str)
    own = table[size >= LEAST_BYTES].merge(dp.drop_duplicates(), on=["src", "dst"])
    return {
        str(name): (one["start_ns"].to_numpy(), one["end_ns"].to_numpy())
        for name, one in own.groupby("dst")
    }


def _last_end(records: Records | None, begin: int, end: int) -> float:
    """The last end of the records that overlap a window [ns]; NaN if there is none."""
    if records is None:
        return np.nan
    starts, ends = records
    inside = (ends >= begin) & (starts < end)
    return float(ends[inside].max()) if inside.any() else np.nan


PAUSE = 3.0  # times the median time between two steps: an evaluation or a save, no host work
PIPELINE_SHARE = 0.25  # of host work, that remains unseen where a pipeline shows the rest


def steps_of_jobs(run: Run) -> list[dict[str, Any]]:
    """Of each true job: the step error beyond what host work explains, and the host work.

    Both are means over the steps that follow another one without a pause, as shares of a step.
    """
    case, ranks = load_tables(run), run.truth("ranks")
    match = match_steps(case)
    samples = samples_of(case, match).assign(rank=match.true["rank"])
    rows = []
    for job, own in samples.groupby("job", sort=True):
        before = own["start_ns_true"] - own.groupby("rank")["end_ns_true"].shift()
        follows = before <= PAUSE * before.median()
        host = (before / own["step_true"])[follows]
        stages = ranks.loc[ranks["job"] == job, "pp"].nunique()
        error = (own["step_inferred"] / own["step_true"] - 1).abs()[follows]
        beyond = (error - host * (PIPELINE_SHARE if stages > 1 else 1.0)).mean()
        known = error.notna().any()
        rows.append({"job": str(job), "beyond_host_work": float(beyond) if known else None,
                     "host_work": float(host.mean())})  # fmt: skip
    return rows
