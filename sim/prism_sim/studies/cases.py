"""One scenario, one seed, one method: a complete run with a key.

A case contains its resolved scenario, including defaults, so its key changes when a default
changes. The key also covers the code (:mod:`~prism_sim.studies.fingerprints`): a saved result
equals the result of a new run, to the last bit.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import pandas as pd

from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.score import CATALOGUE as SCORE_FIGURES
from prism_sim.score.declare import FRACTION, Catalogue, Named, declared, descriptive
from prism_sim.score.encoding import flatten, to_json
from prism_sim.studies.fingerprints import fingerprint, method_fingerprint
from prism_sim.studies.progress import JobProgress, progress_of

SIMULATED_ONLY = "none"
"""In place of a method: simulation only, without a diagnosis."""


@dataclass(frozen=True)
class RunCase:
    """One run of a study.

    Attributes
    ----------
    name : name in tables and messages.
    scenario : the scenario, including the seed.
    method : method of diagnosis; ``none`` for the simulation alone.
    """

    name: str
    scenario: Scenario
    method: str = SIMULATED_ONLY

    @cached_property
    def key(self) -> str:
        """Hash of everything that the result depends on; names and descriptions are excluded."""
        values = self.scenario.model_dump(mode="json", exclude={"name", "description"})
        method = method_fingerprint(self.method) if self.method != SIMULATED_ONLY else ""
        content = json.dumps([fingerprint(), self.method, method, values], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=12).hexdigest()


def figures_of(case: RunCase) -> dict[str, float | None]:
    """Run ``case`` in a temporary folder, and return every figure, by its name.

    ``truth.*`` are figures of the simulation itself (:func:`truth_figures`); the rest is
    ``score.json`` as a flat table, if the case has a method.
    """
    from prism_sim.simulate import simulated

    with simulated(case.scenario) as run:
        figures = simulated_figures(run)
        if case.method != SIMULATED_ONLY:
            figures |= scored_figures(run, case.method)
    return flatten(figures)


def simulated_figures(run: Run) -> dict[str, Any]:
    """The figures of the simulation in ``run``, below ``truth``."""
    return {"truth": to_json(truth_figures(run))}


def scored_figures(run: Run, method: str) -> dict[str, Any]:
    """Diagnose ``run`` by ``method``; returns the content of ``score.json``."""
    from llmprism.pipeline import diagnose
    from prism_sim.score import score_run

    diagnosis = diagnose(run.flows, run.topology, method=method)
    diagnosis.write(run.diagnosis_folder)
    return score_run(run).to_json()


@dataclass(frozen=True)
class JobTruth:
    """Figures of one simulated job."""

    step_s_mean: Annotated[float, descriptive("mean duration of a true (rank, step)", "s")]
    pace_s: Annotated[float, descriptive("time of the job by its steps, host work included", "s")]
    gpu_hours: Annotated[float, descriptive("time of the job on all of its GPUs", "h")]
    effective_training_time_ratio: Annotated[
        float | None,
        descriptive("time of its ranks in steps that were not lost / time of the job", FRACTION),
    ]


@dataclass(frozen=True)
class Truth:
    """Figures of a simulated run, over all jobs and of each."""

    step_s_mean: Annotated[float | None, descriptive("mean duration of a true (rank, step)", "s")]
    pace_s_mean: Annotated[float | None, descriptive("mean of the jobs' pace_s", "s")]
    gpu_hours: Annotated[float, descriptive("time of all jobs on their GPUs", "h")]
    records: Annotated[int, descriptive("flow records")]
    records_per_s: Annotated[float | None, descriptive("flow records in a second", "1/s")]
    slowdown_max: Annotated[
        float | None,
        descriptive("largest slowdown of a job by one fault; needs measure_faults", FRACTION),
    ]
    per_job: Annotated[dict[str, JobTruth], Named("JOB")]


TRUTH_FIGURES = Catalogue(tuple(declared(Truth, "truth.")))
"""The figures of a simulation."""

CATALOGUE = SCORE_FIGURES + TRUTH_FIGURES
"""Every figure of a case: those of the score, and those of the simulation."""


def truth_figures(run: Run) -> Truth:
    """Figures of the simulation in ``run``."""
    steps, manifest = run.truth("steps"), run.read_json(run.manifest)
    steps["duration_s"] = (steps["end_ns"] - steps["start_ns"]) / 1e9
    progress = progress_of(run)
    per_job = {
        str(job): _job_figures(part, progress[str(job)]) for job, part in steps.groupby("job")
    }
    paces = [figures.pace_s for figures in per_job.values()]
    simulated_s, slowdown = manifest["simulated_ns"] / 1e9, run.truth("faults")["slowdown"].max()
    return Truth(
        step_s_mean=float(steps["duration_s"].mean()) if len(steps) else None,
        pace_s_mean=sum(paces) / len(paces) if paces else None,
        gpu_hours=sum(figures.gpu_hours for figures in per_job.values()),
        records=manifest["records"],
        records_per_s=manifest["records"] / simulated_s if simulated_s else None,
        slowdown_max=float(slowdown) if pd.notna(slowdown) else None,
        per_job=per_job,
    )


def _job_figures(steps: Any, progress: JobProgress) -> JobTruth:
    """Figures of one job, from its rows of the truth's ``steps``, and its progress."""
    whole_s = float(steps["end_ns"].max() - steps["start_ns"].min()) / 1e9
    return JobTruth(
        step_s_mean=float(steps["duration_s"].mean()),
        pace_s=whole_s / int(steps["step"].nunique()),
        gpu_hours=whole_s * int(steps["rank"].nunique()) / 3600,
        effective_training_time_ratio=progress.effective_training_time_ratio(len(progress.ends_s)),
    )
