"""Scores with flows: simulated jobs that fail, with flows and logs of the same failure.

llmprism diagnoses the flows; llmlog diagnoses the logs, without and with what flows tell. Both
are scored with all logs, and with the faulty node's own logs lost.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import yaml

from evaluation.logs.answers import Answer, of_failure
from evaluation.logs.scoring import Case, case_of, truth_of
from llmlog.diagnosis import diagnose_job
from llmlog.events import read_job
from llmlog.flows import Flows, Sighting
from llmlog.reading import Job, find_jobs
from llmlog.streams import Intake
from llmlog.understanding import COMPLETED
from prism_sim.families import Family, draw, read_family

_CANNOT_TELL = 4
"""Exit code of llmprism: not all tables can be filled."""


@cache
def _family() -> Family:
    return read_family(Path(__file__).with_name("worlds.yaml"))


def score_world(seed: int, folder: Path) -> Iterator[Case]:
    """Make a world in ``folder`` by the commands, and score each failure that its fault caused."""
    run = _made(seed, folder)
    flows, (truths, events) = Flows.read(run / "diagnosis"), truth_of(run)
    for job in find_jobs([run / "logs"]):
        if job.name in truths and job.state != COMPLETED:
            truth = truths[job.name]
            yield case_of(truth, events[job.name], _answers(job, str(truth.node), flows.of(job)))


def _answers(job: Job, node: str, seen: Sequence[Sighting]) -> dict[str, Answer]:
    """Of all rules; with all logs of the job, and without those of its faulty ``node``."""
    lost = replace(job, files=tuple(file for file in job.files if file.node != node))
    answers = {"flows alone": Answer([], next(([*one.nodes] for one in seen if one.stopped), []))}
    for there, what in ((job, ""), (lost, ", its logs lost")):
        evidence = read_job(there, Intake())
        answers[f"prism{what}"] = of_failure(diagnose_job(evidence))
        answers[f"prism with flows{what}"] = of_failure(
            diagnose_job(read_job(there, Intake()), seen)
        )
    return answers


def _made(seed: int, folder: Path) -> Path:
    scenario, run = folder / "world.yaml", folder / "run"
    values = draw(_family(), seed) | {"logs": {"population": "all"}}
    scenario.write_text(yaml.safe_dump(values), encoding="utf-8")
    _call("prism_sim", "simulate", scenario, "--out", run)
    inputs, out = (run / "flows.parquet", "--topology", run / "topology.json"), run / "diagnosis"
    _call("llmprism", *inputs, "--out", out, fine=(0, _CANNOT_TELL))
    return run


def _call(*arguments: str | Path, fine: tuple[int, ...] = (0,)) -> None:
    command = [sys.executable, "-m", *map(str, arguments), "--quiet"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode not in fine:
        raise RuntimeError(f"{' '.join(command)} failed: {result.stderr}")
