"""Real NetFlow exports: whether jobs are right, and the period where records hold several steps."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from llmprism.pipeline import diagnose_files
from prism_sim.run_folder import Run
from prism_sim.score import score_run

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
    diagnosis = diagnose_files(case / EXPORT, run.topology, method="prism")
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
