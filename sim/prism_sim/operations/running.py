"""Replications of every policy, as pieces of work (:mod:`prism_sim.studies.kept`).

A file that holds no replication counts as missing.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prism_sim.operations.handling import FALSE_ALARM
from prism_sim.operations.job import Job
from prism_sim.operations.policy import Policy
from prism_sim.operations.progress import Ledger
from prism_sim.operations.study import Study
from prism_sim.operations.theory import SECONDS_A_DAY
from prism_sim.studies.kept import Content, Piece, refuse_foreign_pieces, results_of
from prism_sim.studies.paired import Estimate
from prism_sim.studies.pool import Outcome

Row = dict[str, Any]
"""The figures of one replication of one policy; ``policy`` and ``seed`` say which."""

_Positive = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


class _Replication(BaseModel):
    """What :func:`simulate` returns, as a file has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    policy: str
    seed: int
    ettr: _Positive
    failures: _Count
    detect_s: _Positive | None
    localise_s: _Positive | None
    recover_s: _Positive | None
    by_hand: _Count
    false_alarms: _Count
    false_alarm_gpu_hours: _Positive
    lost_gpu_hours: _Positive
    hours_below_90: _Positive | None
    lost_by_cause: dict[str, _Positive]
    ettr_by_day: list[_Positive]


_BATCH = 10  # replications between two looks at the interval
_HOUR_S = 3600.0


@dataclass(frozen=True)
class Task:
    """One policy of a study, with one seed; ``setting`` identifies all else."""

    study: Study
    policy: Policy
    seed: int
    setting: str

    @property
    def key(self) -> str:
        """A name that changes with anything that the result depends on."""
        return _digest(f"{self.setting} {self.policy.model_dump_json()} {self.seed}")


def simulate(task: Task) -> Row:
    """The figures of one replication."""
    ledger, progress = Job(task.study, task.policy, task.seed).run()
    ends_s = task.study.days * SECONDS_A_DAY
    gpus = task.study.servers * task.study.gpus_per_server
    lost = {name: gpus * lost_s / 3600 for name, lost_s in sorted(ledger.lost_s.items())}
    hourly = _sliding(ledger, ends_s, _HOUR_S, _HOUR_S / 10)
    return {
        "policy": task.policy.name,
        "seed": task.seed,
        "ettr": progress.work_s / ends_s,
        "failures": len(ledger.recover_s),
        "detect_s": _mean([detected.after_s for _, detected in ledger.detected]),
        "localise_s": _mean(ledger.localise_s),
        "recover_s": _mean(ledger.recover_s),
        "by_hand": ledger.by_hand,
        "false_alarms": ledger.false_alarms,
        "false_alarm_gpu_hours": lost.get(FALSE_ALARM, 0.0),
        "lost_gpu_hours": sum(lost.values()),
        "hours_below_90": float(np.mean(hourly < 0.9)) if len(hourly) else None,
        "lost_by_cause": lost,
        "ettr_by_day": _sliding(ledger, ends_s, SECONDS_A_DAY, SECONDS_A_DAY).tolist(),
    }


def run(study: Study, folder: Path, processes: int) -> list[tuple[Task, Outcome[Row]]]:
    """All replications that the study asks for, by policy and seed.

    Results that ``folder`` has are read, others are added to it. Without ``enough``, there
    are ``seeds`` replications of each policy; else they end when every interval is small enough.
    """
    refuse_foreign_pieces(folder)
    folder.mkdir(parents=True, exist_ok=True)
    done: list[tuple[Task, Outcome[Row]]] = []
    for seeds in _batches(study):
        done += _outcomes(tasks_of(study, seeds), folder, processes)
        if study.enough and _widest(done) <= study.enough:
            break
    order = {policy.name: number for number, policy in enumerate(policies_of(study))}
    return sorted(done, key=lambda one: (order[one[0].policy.name], one[0].seed))


def run_sweep(study: Study, folder: Path, processes: int) -> Iterator[Row]:
    """A row for each replication of each policy at each point: its values, seed and figures.

    A failed replication has the key ``error``.
    """
    for point in study.sweep.points if study.sweep else ():
        for task, outcome in run(point.study, folder, processes):
            who = {**point.values, "policy": task.policy.name, "seed": task.seed}
            ratio = outcome.result["ettr"] if outcome.result else None
            yield {**who, "ettr": ratio, "error": outcome.error}


def policies_of(study: Study) -> list[Policy]:
    """The policies to compare, and those of the curves."""
    varied = study.worth.variants(study.policies) if study.worth else []
    return [*study.policies, *(variant.policy for variant in varied)]


def tasks_of(study: Study, seeds: Iterable[int] | None = None) -> list[Task]:
    """Every policy with every seed."""
    left_out = {
        "policies",
        "seeds",
        "enough",
        "measured",
        "worth",
        "windows",
        "description",
        "sweep",
        "gpu_hour_price",
    }
    setting = _digest(study.model_dump_json(exclude=left_out))
    numbers = list(seeds or range(1, study.seeds + 1))
    return [Task(study, policy, seed, setting) for policy in policies_of(study) for seed in numbers]


def _batches(study: Study) -> Iterator[range]:
    size = _BATCH if study.enough else study.seeds
    for first in range(1, study.seeds + 1, size):
        yield range(first, min(first + size, study.seeds + 1))


def _outcomes(
    tasks: list[Task], folder: Path, processes: int
) -> Iterator[tuple[Task, Outcome[Row]]]:
    pieces = [Piece(task.key, f"{task.policy.name}, seed {task.seed}", task) for task in tasks]
    found = results_of(
        _replicated, pieces, folder, processes, retry=True, result="row", is_result=_is_replication
    )
    for kept, task in zip(found, tasks, strict=True):
        own = {"policy": task.policy.name, "seed": task.seed}
        yield task, Outcome(kept["row"] | own if "row" in kept else None, kept.get("error"))


def _replicated(task: Task) -> Content:
    return {"row": simulate(task)}


def _is_replication(value: Any) -> bool:
    try:
        _Replication.model_validate(value)
    except ValidationError:
        return False
    return True


def _widest(done: Iterable[tuple[Task, Outcome[Row]]]) -> float:
    """Half of the widest 95 % interval of a policy's mean ETTR."""
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for task, outcome in done:
        if outcome.result is not None:
            ratios[task.policy.name].append(outcome.result["ettr"])
    halves = [Estimate.of(pd.Series(found)).half for found in ratios.values()]
    return max(halves, default=float("inf"))


def _sliding(ledger: Ledger, ends_s: float, window_s: float, step_s: float) -> Any:
    """The ETTR of a window that moves by ``step_s``; work that is lost later does not count."""
    times_s, work_s = np.array(ledger.curve).T
    kept_s = np.minimum.accumulate(work_s[::-1])[::-1]
    at_s = np.arange(0.0, ends_s - window_s + 1e-6, step_s)
    before_s, after_s = (np.interp(times, times_s, kept_s) for times in (at_s, at_s + window_s))
    return (after_s - before_s) / window_s


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None
