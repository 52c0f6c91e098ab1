"""Opens windows: simulates flows at chosen moments of a job, and diagnoses them.

The scenario of a window gets the failure as a fault, from the middle of its first job on, at the
same part of the cluster; its own faults are left out. The run folder is as any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from llmprism.pipeline import diagnose
from prism_sim.draws import Draws
from prism_sim.faults import KINDS, FaultBase
from prism_sim.faults.drawing import Drawing
from prism_sim.loading.scenario import Scenario
from prism_sim.operations.failures import Failure
from prism_sim.operations.job import Job
from prism_sim.operations.study import Study
from prism_sim.operations.window import FAULTS, Moment
from prism_sim.products import stage_files
from prism_sim.run_folder import Run
from prism_sim.score import score_run
from prism_sim.score.faults import FaultMatch, score_faults
from prism_sim.score.load import load
from prism_sim.simulate import simulate

_FOUND = ("found_s", "cause", "culprit", "right")

FIRST = 1
"""Seed of the first replication, whose failures the windows show."""


def moments_of(study: Study) -> list[Moment]:
    """The moments of the study's windows.

    Raises
    ------
    UserError : a cause does not occur.
    """
    if study.windows is None:
        return []
    policy = study.windows.of(study.policies)
    assert policy is not None  # reading checks it
    ledger, _ = Job(study, policy, FIRST).run()
    return study.windows.moments(ledger.detected)


def open_windows(study: Study, moments: list[Moment], folder: Path) -> Iterator[dict[str, Any]]:
    """A row for each window; its run is in ``folder/NUMBER``."""
    for number, moment in enumerate(moments, start=1):
        yield {"window": number, **_assumed(moment), **_open(study, moment, folder / str(number))}


def _assumed(moment: Moment) -> dict[str, Any]:
    """What the level of operations says of a moment."""
    failure, detected = moment.failure, moment.detected
    return {
        "hour": moment.at_s / 3600,
        "failure": failure.cause.name if failure else None,
        "server": failure.server if failure else None,
        "assumed_s": detected.after_s if detected else None,
        "by_hand": detected.by_hand if detected else None,
    }


def _open(study: Study, moment: Moment, folder: Path) -> dict[str, Any]:
    """What a diagnoser finds in the flows of a moment."""
    assert study.windows is not None
    assert study.windows.loaded is not None
    method, scenario = study.windows.method, study.windows.loaded
    faults = tuple(_faults(study, moment, scenario))
    with stage_files(folder, "simulate") as aside:
        simulate(scenario.model_copy(update={"faults": faults, "campaign": None}), Run(aside))
    run = Run(folder)
    with stage_files(folder, "diagnose") as aside:
        diagnose(run.flows, run.topology, method).write_files(Run(aside).diagnosis_folder)
    with stage_files(folder, "score") as aside:
        score = score_run(Run(aside)).faults
    match = score.matches[0] if score.matches else None
    found = _found(run, method, match) if match and match.detected else dict.fromkeys(_FOUND)
    return {
        "fault": match.kind if match else None,
        "place": match.culprit if match else None,
        **found,
        "false_alarms": score.false_alarms,
    }


def _found(run: Run, method: str, match: FaultMatch) -> dict[str, Any]:
    """When the diagnoser found the fault, and what it named."""
    findings = run.diagnosis("findings").set_index("finding")
    named = findings.loc[match.finding]
    values = (_found_s(run, method), named["cause"], named["culprit"], match.localized)
    return dict(zip(_FOUND, values, strict=True))


def _faults(study: Study, moment: Moment, scenario: Scenario) -> Iterator[FaultBase]:
    """The failure of ``moment`` as a fault, if flows can show it."""
    failure, detected = moment.failure, moment.detected
    if failure is None or detected is None or failure.cause.symptom not in FAULTS:
        return
    job = scenario.jobs[0]
    kind = KINDS[FAULTS[failure.cause.symptom]]
    drawing = _drawing(study, failure, scenario)
    window = {"job": job.name, "from_step": job.steps // 2, "from_s": None, "to_s": None}
    values = kind.drawn(drawing) | window
    if kind.stops_jobs:
        values |= {"noticed_after_s": max(detected.after_s, 1e-3), "down_s": None}
    yield kind.model_validate(values)


def _drawing(study: Study, failure: Failure, scenario: Scenario) -> Drawing:
    """The place and the severity of ``failure``."""
    only = scenario.model_copy(update={"jobs": scenario.jobs[:1]})
    position = (failure.server + 0.5) / study.servers
    stream = Draws(FIRST).stream("window")
    factor = 1 / (1 + study.failures.slowdown)
    return Drawing(stream, only, position, 0.0, 1.0, factor)


def _found_s(run: Run, method: str) -> float:
    """Time from the beginning of the fault until the records show it, and go on to show it.

    The records until then are diagnosed at doubled times, from a step on.
    """
    flows, case = pq.read_table(run.flows), load(run)
    began_ns = int(case.truth["faults"]["start_ns"].iloc[0])
    steps = case.truth["steps"]
    step_ns = int((steps["end_ns"] - steps["start_ns"]).median())
    last_ns = int(pc.max(flows["end_ns"]).as_py()) - began_ns
    found_ns = last_ns
    doubled_ns = [step_ns << number for number in range((last_ns // step_ns).bit_length())]
    for after_ns in reversed(doubled_ns):
        records = flows.filter(pc.less_equal(flows["end_ns"], pa.scalar(began_ns + after_ns)))
        diagnosis = diagnose(records, run.topology, method)
        tables = {**case.diagnosis, "jobs": diagnosis.jobs, "findings": diagnosis.findings}
        if not score_faults(replace(case, diagnosis=tables)).matches[0].detected:
            break
        found_ns = after_ns
    return found_ns / 1e9
