"""Diagnoses one world with each method, and compares the tables with the truth.

The scorer of prism-sim decides which finding belongs to which fault. What is added here is about
one fault at a time: whether it has to be found, how large the named set is, and what it cost.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evaluation.exam import answers, truth
from evaluation.exam.worlds import RESULTS, World, families, scenario_of, simulated
from llmprism.finding_fields import evidence_of, names_in
from llmprism.io.tables import DIAGNOSIS
from llmprism.pipeline import diagnose_files
from prism_sim.run_folder import Run
from prism_sim.score import Score, score_case
from prism_sim.score.encoding import to_json
from prism_sim.score.faults import FaultMatch, causes_of, right_names, score_faults
from prism_sim.score.load import Case, load
from prism_sim.score.parallelism import score_parallelism

Row = dict[str, Any]
METHODS = ("prism", "paper")
RIGHT_STEPS = 0.9
"""Share of the steps of a job, over its ranks, below which its timeline is wrong."""

STRUCTURE = {
    "jobs exact": ("jobs", "accuracy"),
    "pairs": ("pairs", "accuracy"),
    "layouts (dp and pp)": ("parallelism of all", "sizes_exact"),
    "groups": ("parallelism", "groups_exact"),
    "stage order": ("parallelism", "stage_order"),
    "steps matched": ("timeline", "coverage"),
    "DP-end error": ("timeline", "dp_end_error_mean"),
    "step error": ("timeline", "step_error_mean"),
}
"""Figures of the scorer that a reader of the structure asks for, by their parts and keys."""


def measure(task: tuple[World, Sequence[str]]) -> Row:
    """The result of one world: its truth, and what each method found."""
    world, methods = task
    scenario = scenario_of(world)
    run = simulated(scenario, RESULTS / "worlds")
    row: Row = {"family": world.family, "set": families()[world.family].set, "seed": world.seed}
    row |= truth.of_world(run, scenario)
    row["methods"] = {method: diagnosed(run, method) for method in methods}
    return {"result": row}


def diagnosed(run: Run, method: str) -> Row:
    """What ``method`` found in the records of ``run``; tables are empty if it raised an error."""
    shutil.rmtree(run.diagnosis_folder, ignore_errors=True)
    began, refused = time.process_time(), None
    try:
        diagnose_files(run.flows, run.topology, method=method).write(run.diagnosis_folder)
    except Exception as error:  # a method that fails is graded as one that finds nothing
        refused = f"{type(error).__name__}: {error}"
        shutil.rmtree(run.diagnosis_folder, ignore_errors=True)
        for name, schema in DIAGNOSIS.items():
            run.write_diagnosis(name, schema.empty_table())
    took_s = time.process_time() - began
    return {"refused": refused, "cpu_s": round(took_s, 2)} | graded(load(run))


def graded(case: Case) -> Row:
    """The grade of one diagnosis.

    Jobs, groups and steps are compared for the ranks that records can show. Sizes of layouts and
    faults are those of the whole job.
    """
    faults, seen = score_faults(case), score_case(_of_seen_ranks(case))
    plain = seen.to_json() | {"parallelism of all": to_json(score_parallelism(case))}
    return {
        "structure": {name: plain[part][key] for name, (part, key) in STRUCTURE.items()},
        "findings": faults.findings,
        "true": faults.true_alarms,
        "false": faults.false_alarms,
        "faults": [_of_fault(case, seen, match) for match in faults.matches],
        "answers": answers.of_case(case, faults),
    }


def _of_seen_ranks(case: Case) -> Case:
    ranks = case.truth["ranks"]
    seen = ranks["address"].isin(truth.seen_addresses(case.truth["pairs"]))
    return replace(case, truth=case.truth | {"ranks": ranks[seen].reset_index(drop=True)})


def _of_fault(case: Case, seen: Score, match: FaultMatch) -> Row:
    """What was found of one fault."""
    fault = case.truth["faults"].iloc[match.fault]
    findings = case.diagnosis["findings"]
    top = findings[findings["finding"] == match.finding]
    row: Row = {
        "steps_right": _steps_right(seen, truth.job_of(fault, match.jobs)),
        "detected": match.detected,
        "first": match.localized,
        "cause": bool(match.cause_right),
        "delay": match.steps_to_detect,
    }
    if top.empty:
        return row | {"in_set": False, "set_size": None, "one_of_causes": False, "cost": None}
    finding = {str(key): value for key, value in top.iloc[0].items()}
    named = named_set(finding)
    causes = {str(finding["cause"]), *names_in(evidence_of(finding).get("or_causes"))}
    return row | {
        "in_set": bool(named & right_names(case, fault)),
        "set_size": len(named),
        "one_of_causes": bool(causes & causes_of(match.kind)),
        "cost": match.cost_error,
    }


def named_set(finding: Mapping[str, Any]) -> set[str]:
    """Every part that a finding names as a possible culprit: the first one, and its ``one_of``."""
    return {str(finding["culprit"]), *names_in(evidence_of(finding).get("one_of"))}


def _steps_right(score: Score, job: str | None) -> bool:
    figures = score.timeline.per_job.get(str(job))
    return figures is not None and (figures.coverage or 0.0) >= RIGHT_STEPS
