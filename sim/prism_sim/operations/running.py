"""Replications of every policy, in processes; finished ones are kept in files and not repeated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from prism_sim.operations.job import FALSE_ALARM, Job
from prism_sim.operations.study import Policy, Study
from prism_sim.operations.theory import SECONDS_A_DAY
from prism_sim.studies.pool import Outcome, Processes

Row = dict[str, Any]
"""The figures of one replication of one policy; ``policy`` and ``seed`` say which."""


@dataclass(frozen=True)
class Task:
    """One policy of a study, with one seed."""

    study: Study
    policy: Policy
    seed: int

    @property
    def key(self) -> str:
        """A name that changes with anything that the result depends on."""
        setting = self.study.model_dump_json(exclude={"policies", "seeds"})
        text = f"{setting} {self.policy.model_dump_json()} {self.seed}"
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def simulate(task: Task) -> Row:
    """The figures of one replication."""
    ledger, progress = Job(task.study, task.policy, task.seed).run()
    ends_s = task.study.days * SECONDS_A_DAY
    gpus = task.study.servers * task.study.gpus_per_server
    lost = {name: gpus * lost_s / 3600 for name, lost_s in sorted(ledger.lost_s.items())}
    return {
        "policy": task.policy.name,
        "seed": task.seed,
        "ettr": progress.work_s / ends_s,
        "detect_s": _mean(ledger.detect_s),
        "localise_s": _mean(ledger.localise_s),
        "recover_s": _mean(ledger.recover_s),
        "by_hand": ledger.by_hand,
        "false_alarms": ledger.false_alarms,
        "false_alarm_gpu_hours": lost.get(FALSE_ALARM, 0.0),
        "lost_gpu_hours": sum(lost.values()),
        "lost_by_cause": lost,
    }


def rows_of(study: Study, folder: Path, processes: int) -> Iterator[tuple[Task, Outcome[Row]]]:
    """Each task with its outcome; results that ``folder`` has are read, others are added to it."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = []
    for task in tasks_of(study):
        kept = folder / f"{task.key}.json"
        if kept.is_file():
            yield task, Outcome(json.loads(kept.read_text(encoding="utf-8")) | _place(task))
        else:
            missing.append(task)
    for task, outcome in Processes(processes).outcomes(simulate, missing):
        if outcome.result is not None:
            partial = folder / f".{task.key}.partial"
            partial.write_text(json.dumps(outcome.result), encoding="utf-8")
            partial.rename(folder / f"{task.key}.json")
        yield task, outcome


def tasks_of(study: Study) -> list[Task]:
    """Every policy with every seed."""
    seeds = range(1, study.seeds + 1)
    return [Task(study, policy, seed) for policy in study.policies for seed in seeds]


def _place(task: Task) -> Row:
    return {"policy": task.policy.name, "seed": task.seed}


def _mean(values: list[float]) -> float | None:
    return fmean(values) if values else None
