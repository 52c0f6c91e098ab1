"""Run the trials of experiments in processes. An interrupted run resumes, and repeats no trial."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prism_common.errors import Problem, UserError
from prism_sim.toolkit import Content, Piece, did_you_mean, do_missing, kept_content
from reproduction import EXPERIMENTS
from reproduction.base import Done, Experiment, Trial

CASES = "cases"


@dataclass(frozen=True)
class Results:
    """Results of the trials of one experiment.

    Attributes
    ----------
    done : the finished trials, in the order in which the experiment lists them.
    failed : name and error of the other trials.
    cpu_seconds : CPU time of the finished trials, over all processes.
    """

    experiment: Experiment
    done: list[Done]
    failed: list[tuple[str, str]]
    cpu_seconds: float


def chosen(names: Iterable[str]) -> list[Experiment]:
    """The experiments with these names, or all.

    An unknown name is a UserError, which suggests the nearest one.
    """
    wanted = list(names)
    problems = [
        Problem(f"there is no experiment {name!r}", "--only", did_you_mean(name, EXPERIMENTS))
        for name in wanted
        if name not in EXPERIMENTS
    ]
    if problems:
        raise UserError(problems)
    return [one for name, one in EXPERIMENTS.items() if name in wanted or not wanted]


def trials_of(
    experiments: Iterable[Experiment], seeds: Sequence[int], reduced: bool
) -> dict[str, list[Trial]]:
    """The trials of each experiment, by its name."""
    return {one.name: one.trials(seeds, reduced) for one in experiments}


def run_trials(
    trials: dict[str, list[Trial]],
    folder: Path,
    processes: int,
    progress: Callable[[float, str], None] | None = None,
    retry: bool = False,
) -> tuple[int, int]:
    """Run the trials without a result in ``folder``; return the numbers of new and old results."""
    pieces = [
        Piece(EXPERIMENTS[trial.experiment].key(trial), f"{trial.experiment} {trial.name}", trial)
        for listed in trials.values()
        for trial in listed
    ]
    return do_missing(
        _measured,
        pieces,
        folder / CASES,
        processes,
        progress,
        retry,
        total=len(pieces),
        result="result",
    )


def _measured(trial: Trial) -> Content:
    started_s, cpu_started_s = time.perf_counter(), time.process_time()
    result = EXPERIMENTS[trial.experiment].measure(trial)
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss [bytes]
    return {
        "experiment": trial.experiment,
        "settings": dict(trial.settings),
        "seconds": round(time.perf_counter() - started_s, 3),
        "cpu_seconds": round(time.process_time() - cpu_started_s, 3),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
        "result": result,
        "scenario": trial.scenario.model_dump(mode="json", exclude_defaults=True),
    }


def results_of(trials: dict[str, list[Trial]], folder: Path) -> list[Results]:
    """Results of :func:`run_trials` in ``folder``, one entry for each experiment."""
    return [_results(EXPERIMENTS[name], listed, folder) for name, listed in trials.items()]


def _results(experiment: Experiment, trials: list[Trial], folder: Path) -> Results:
    kept = [(trial, kept_content(folder / CASES, experiment.key(trial))) for trial in trials]
    return Results(
        experiment,
        [Done(trial, saved["result"]) for trial, saved in kept if "error" not in saved],
        [(trial.name, saved["error"]) for trial, saved in kept if "error" in saved],
        sum(saved.get("cpu_seconds", 0.0) for _, saved in kept),
    )
