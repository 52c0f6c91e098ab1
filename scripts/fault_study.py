"""Simulate and diagnose drawn worlds, and compare findings with what was injected.

One world gives one row. A simulated world is kept, since it depends on the scenario and on the
simulator alone; its row is computed again when the code of the diagnosis has changed. So the study
continues where it was interrupted.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fault_worlds import World, draw_world, telemetry_of
from llmprism.pipeline import diagnose_files
from prism_sim.faults import KINDS
from prism_sim.loading.scenario import Scenario
from prism_sim.run_folder import Run
from prism_sim.score.faults import FaultMatch, causes_of, right_names, score_faults
from prism_sim.score.jobs import true_job_of
from prism_sim.score.load import Case, load
from prism_sim.simulate import simulate
from prism_sim.studies.fingerprints import fingerprint
from prism_sim.version import PACKAGE

Row = dict[str, Any]
FIRST = 3  # suspects of which one has to be the culprit
SUDDEN = ("hang", "crash")  # faults of which the rank that stopped is to be named at once
AT_ONCE_S = 10.0  # ... from the records until this time after the stop


def measured(seed: int, kind: str | None, folder: Path, method: str = "prism") -> Row:
    """The row of one world, from ``folder`` if it is there."""
    world = draw_world(seed, kind)
    run = Run(folder / world["name"])

    def measure() -> Row:
        simulated(world, run)
        row = {"seed": seed, "kind": kind, "telemetry": telemetry_of(world)}
        row |= _layout(world) | _diagnosed(run, run.flows, method)
        if kind in SUDDEN and row["injected"]:
            row["at_once"] = _named_at_once(run, method)
        return row

    return kept_row(run, world, measure, method)


def kept_row(run: Run, world: World, measure: Callable[[], Row], method: str = "prism") -> Row:
    """The row of ``world`` in the folder of ``run``, or else what ``measure`` returns."""
    code = fingerprint(("render", "commands", "cli.py"))
    key = hashlib.blake2b(json.dumps([code, world, method]).encode(), digest_size=8).hexdigest()
    kept = run.folder / f"row-{method}.json"
    if kept.exists() and (row := json.loads(kept.read_text()))["key"] == key:
        return dict(row)
    row = {"key": key} | measure()
    run.write_json(kept, row)
    return row


def simulated(world: World, run: Run) -> None:
    """Simulate ``world``, unless that was done by the same code."""
    kept = run.folder / "world.json"
    text = json.dumps([_simulator(), world], sort_keys=True)
    if not kept.exists() or kept.read_text() != text:
        shutil.rmtree(run.folder, ignore_errors=True)
        simulate(Scenario.model_validate(world), run)
        kept.write_text(text)


@cache
def _simulator() -> str:
    """A hash of the code of the simulator, without that which scores and draws."""
    digest = hashlib.blake2b(digest_size=8)
    for part in ("cluster", "collector", "faults", "scenario", "training", "world"):
        for path in sorted((PACKAGE / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _diagnosed(run: Run, flows: Path, method: str) -> Row:
    """Diagnose the records in ``flows``, and compare."""
    shutil.rmtree(run.diagnosis_folder, ignore_errors=True)
    diagnose_files(flows, run.topology, method=method).write(run.diagnosis_folder)
    return _compared(load(run))


def _named_at_once(run: Run, method: str) -> bool:
    """Whether the rank that stopped is named first, from the records of 10 s after that."""
    until_ns = int(run.truth("faults")["start_ns"].iloc[0]) + round(AT_ONCE_S * 1e9)
    table = pq.read_table(run.flows)
    early = run.folder / "early.parquet"
    pq.write_table(table.filter(pc.less_equal(table["end_ns"], until_ns)), early)
    whole = run.diagnosis_folder.rename(run.folder / "diagnosis-whole")
    row = _diagnosed(run, early, method)
    early.unlink()
    shutil.rmtree(run.diagnosis_folder)
    whole.rename(run.diagnosis_folder)
    return bool(row["injected"] and row["first"])


def _layout(world: World) -> Row:
    job = world["jobs"][0]
    sizes = {name: job[name] for name in ("dp", "pp", "tp", "micro_batches", "zero_stage")}
    return sizes | {"schedule": job.get("schedule", "none"), "jobs": len(world["jobs"])}


def _compared(case: Case) -> Row:
    """What was injected, what was found, and how the two agree."""
    score = score_faults(case)
    findings = case.diagnosis["findings"]
    row: Row = {
        "job_steps": len(case.truth["steps"][["job", "step"]].drop_duplicates()),
        "findings": score.findings,
        "false": score.false_alarms,
        "found": [_short(one) for _, one in findings.iterrows()],
    }
    if not score.matches:
        return row | {"injected": False}
    match, fault = score.matches[0], case.truth["faults"].iloc[0]
    top = findings[findings["finding"] == match.finding]
    return row | {
        "injected": True,
        **verdict(match, fault),
        "culprit": match.culprit,
        "culprit_kind": match.culprit_kind,
        "window": [_number(fault["from_step"]), _number(fault["to_step"])],
        "among": match.localized or _among(case, fault, score.true_findings),
        "one_of_causes": _one_of_causes(match.kind, top),
        "delay": match.steps_to_detect,
        "confidence": None if top.empty else float(top["confidence"].iloc[0]),
        "cost_error": cost_error(case, fault, score.true_findings, top),
        "known_cost_error": None if top.empty else known_cost_error(case.truth["steps"], fault),
    }


def verdict(match: FaultMatch, fault: pd.Series) -> Row:
    """What one fault did, and what was found of it."""
    return {
        "stops": KINDS[match.kind].stops_jobs,
        "slowdown": _number(fault["slowdown"]),
        "detected": match.detected,
        "first": match.localized,
        "cause_right": bool(match.cause_right),
    }


def _short(one: pd.Series) -> list[Any]:
    names = ("level", "cause", "culprit", "first_step", "last_step", "job")
    numbers = [round(float(one[name]), 3) for name in ("magnitude", "confidence")]
    return [*(str(one[name]) for name in names), *numbers]


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _among(case: Case, fault: pd.Series, true: list[int]) -> bool:
    """Whether the culprit is one of the first suspects of a true finding, or of the findings."""
    names = right_names(case, fault)
    findings = case.diagnosis["findings"]
    own = findings[findings["finding"].isin(true)].sort_values("confidence", ascending=False)
    if set(own["culprit"].head(FIRST)) & names:
        return True
    return any(
        {str(one) for one in json.loads(text).get("one_of", [])[:FIRST]} & names
        for text in own["evidence"].head(FIRST)
    )


def _one_of_causes(kind: str, top: pd.DataFrame) -> bool:
    """Whether the right cause is given, first or as "X or Y"."""
    if top.empty:
        return False
    evidence = json.loads(top["evidence"].iloc[0])
    return bool({str(top["cause"].iloc[0]), *evidence.get("or_causes", [])} & causes_of(kind))


def cost_error(case: Case, fault: pd.Series, true: list[int], top: pd.DataFrame) -> float | None:
    """Difference of the cost to that of the rerun, over the time of the same steps without it.

    The cost is that of the job which the fault slows most. A link that two jobs share costs each of
    them something, and each has a finding of its own. So the surest of the ``true`` findings about
    that job counts, or ``top`` if there is none. None if nothing was found or lost.
    """
    if top.empty:
        return None
    findings = case.diagnosis["findings"]
    about = findings["job"].map(true_job_of(case)) == fault["slowed_job"]
    own = findings[about & findings["finding"].isin(true)]
    one = top if own.empty else own.sort_values("confidence", ascending=False)
    return _off(float(one["cost"].iloc[0]), fault)


def known_cost_error(steps: pd.DataFrame, fault: pd.Series) -> float | None:
    """The same of a reader who knows the true ``steps``, and in which ones the fault was there.

    The steps of the fault are compared with the median of all others, which end elsewhere than they
    would have: nobody sees by how much the steps of the fault would have varied without it.
    """
    own = steps[steps["job"] == fault["slowed_job"]].groupby("step")["end_ns"].max()
    took_ns = own.diff().iloc[1:]
    middle_ns = own.iloc[1:] - took_ns / 2
    within = (middle_ns >= fault["start_ns"]) & (middle_ns < fault["end_ns"])
    if within.all() or not within.any():
        return None
    return _off(float((took_ns[within] - took_ns[~within].median()).sum()), fault)


def _off(cost_ns: float, fault: pd.Series) -> float | None:
    share, extra_ns = fault["slowdown"], fault["extra_ns"]
    if pd.isna(share) or pd.isna(extra_ns) or not share > 0 or not extra_ns > 0:
        return None
    return float(cost_ns - extra_ns) / (extra_ns / share)
