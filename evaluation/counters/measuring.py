"""Diagnoses the counters of one world at several intervals, and compares them with the truth.

A world is simulated once, with the shortest interval. An exporter with a longer one sees some of
the same values: every *n*-th reading of each port.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.exam import truth
from evaluation.exam.measuring import graded
from evaluation.exam.worlds import RESULTS, World, families, scenario_of, simulated
from llmprism.counters.diagnosing import diagnose
from llmprism.counters.readers import read
from llmprism.counters.readers.options import Options
from llmprism.io.topology import read_topology
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.score.jobs import true_job_of
from prism_sim.score.load import Case, load

Row = dict[str, Any]
INTERVALS_S = (0.1, 0.3, 1.0, 3.0, 15.0)
"""From the fastest telemetry of switches to the usual one of SNMP."""


def with_counters(scenario: Scenario) -> Scenario:
    """The same scenario, with counters at the shortest interval."""
    values = scenario.model_dump(mode="json", exclude_unset=True)
    collector = {**values.get("collector", {}), "counters": {"interval_s": INTERVALS_S[0]}}
    return Scenario.model_validate({**values, "collector": collector})


def measure(task: tuple[World, Sequence[float]]) -> Row:
    """The result of one world: its truth, and what its counters show at each interval."""
    world, intervals_s = task
    scenario = with_counters(scenario_of(world))
    run = simulated(scenario, RESULTS / "counters")
    row: Row = {"family": world.family, "set": families()[world.family].set, "seed": world.seed}
    row |= truth.of_world(run, scenario)
    row["methods"] = {f"{seconds:g} s": diagnosed(run, seconds) for seconds in intervals_s}
    return {"result": row}


def diagnosed(run: Run, interval_s: float) -> Row:
    """What the counters of ``run`` show at an interval."""
    shutil.rmtree(run.diagnosis_folder, ignore_errors=True)
    seldom = run.folder / "seldom.parquet"
    pq.write_table(read_seldom(run.counters, round(interval_s / INTERVALS_S[0])), seldom)
    began = time.process_time()
    result = diagnose(read([str(seldom)], Options()), read_topology(run.topology))
    result.diagnosis.write(run.diagnosis_folder)
    took_s = time.process_time() - began
    can_tell = result.diagnosis.verdict.can_tell
    case = load(run)
    refused = None if can_tell else "these counters cannot tell"
    return {"refused": refused, "cpu_s": round(took_s, 2)} | graded(case) | _periods(case)


def read_seldom(path: Path, every: int) -> pa.Table:
    """The counters of ``path``, with every ``every``-th reading of each port."""
    table = pq.read_table(path)
    number = pd.Series(table["port"].to_pandas()).groupby(table["port"].to_pandas(), observed=True)
    return table.filter(pa.array(number.cumcount().to_numpy() % every == 0))


def _periods(case: Case) -> Row:
    """Jobs whose length of a step was given, and its relative errors."""
    true = case.truth["layouts"].set_index("job")["period_ns"]
    found = case.diagnosis["layouts"]
    found = found[found["period_ns"] > 0]
    errors: dict[str, float] = {}  # of each true job, from the first found one that is it
    for period, job in zip(found["period_ns"], found["job"].map(true_job_of(case)), strict=True):
        if job in true.index and true[job] > 0:
            errors.setdefault(str(job), abs(period / true[job] - 1))
    jobs = int((true > 0).sum())
    return {"periods": len(errors), "true_jobs": jobs, "period_errors": [*errors.values()]}
