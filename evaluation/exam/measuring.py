"""Diagnoses one world with each method, and compares the tables with the truth.

The scorer of prism-sim decides which finding belongs to which fault. What is added here is about
one fault at a time: whether it has to be found, how large the named set is, and what it cost.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from evaluation.exam import answers, truth
from evaluation.exam.worlds import World, families, scenario_of, simulated
from llmprism.diagnosis import Diagnosis
from llmprism.finding_fields import evidence_of, names_in, number
from llmprism.io.tables import DIAGNOSIS
from llmprism.pipeline import diagnose
from prism_sim.run_folder import Run
from prism_sim.score import Score, score_case
from prism_sim.score.alarms import Alarms, alarms_of, causes_of, named_set, right_names
from prism_sim.score.culprits import culprit_of, same_devices
from prism_sim.score.encoding import to_json
from prism_sim.score.extents import about_cost, has_cost
from prism_sim.score.faults import FaultMatch, score_faults
from prism_sim.score.load import Case, load
from prism_sim.score.parallelism import score_parallelism
from prism_sim.toolkit import working_folder

Row = dict[str, Any]
METHODS = ("prism", "paper")
RIGHT_STEPS = 0.9
"""Share of the steps of a job, over its ranks, below which its timeline is wrong."""
FEW = 3
"""Parts in a named set that an operator can look at."""
NAMED = ("first", "in_set", "server", "near")
"""What a finding may name right of a fault."""
OF_RANKS = ("jobs", "groups", "steps")
NEAR = 0.01
"""Of the time of the steps of a fault, by which its cost may be wrong."""

STRUCTURE = {
    "jobs exact": ("jobs", "accuracy"),
    "pairs": ("pairs", "accuracy"),
    "layouts (dp and pp)": ("parallelism of all", "sizes_exact"),
    "layouts right or unknown": ("layouts", "right_or_unknown"),
    "groups": ("parallelism", "groups_exact"),
    "stage order": ("parallelism", "stage_order"),
    "steps matched": ("timeline", "coverage"),
    "DP-end error": ("timeline", "dp_end_error_mean"),
    "step error": ("timeline", "step_error_mean"),
}
"""Figures of the scorer that a reader of the structure asks for, by their parts and keys."""


class Task(NamedTuple):
    """One world, the method that diagnoses it, and the folder of what is kept."""

    world: World
    method: str
    kept: Path


def measure(task: Task) -> Row:
    """The result of one world: its truth, and what the method found."""
    world, method, kept = task
    scenario = scenario_of(world, kept / "drawn")
    run = simulated(scenario, kept / "worlds")
    row: Row = {"family": world.family, "set": families()[world.family].set, "seed": world.seed}
    row |= truth.of_world(run, scenario)
    with beside(run) as own:
        row["methods"] = {method: diagnosed(own, method)}
    return {"result": row}


@contextmanager
def beside(run: Run, flows: Path | None = None) -> Iterator[Run]:
    """A run with the same simulation, and a diagnosis apart: others may diagnose it meanwhile.

    ``flows`` are records of it in another file.
    """
    with working_folder() as folder:
        os.symlink((flows or run.flows).resolve(), folder / run.flows.name)
        for part in (run.topology, run.manifest, run.folder / "truth"):
            os.symlink(part.resolve(), folder / part.name)
        yield Run(folder)


def diagnosed(run: Run, method: str) -> Row:
    """What ``method`` found in the records of ``run``; tables are empty if it raised an error."""
    return grade_of(run, lambda: diagnose(run.flows, run.topology, method=method))


def grade_of(run: Run, diagnose: Callable[[], Diagnosis]) -> Row:
    """The grade of what ``diagnose`` returns; tables are empty if it raised an error."""
    shutil.rmtree(run.diagnosis_folder, ignore_errors=True)
    began, refused = time.process_time(), None
    try:
        diagnose().write(run.diagnosis_folder)
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
    alarms = alarms_of(case)
    faults, seen = score_faults(case, alarms), score_case(_of_seen_ranks(case))
    layouts = to_json(score_parallelism(case))
    plain = seen.to_json() | {"parallelism of all": layouts}
    plain["layouts"] = {"right_or_unknown": _right_or_unknown(layouts["jobs"])}
    findings = named_by(case, alarms)
    return {
        "structure": {name: plain[part][key] for name, (part, key) in STRUCTURE.items()},
        "findings": findings,
        "faults": [_of_fault(case, seen, match, alarms) for match in faults.matches],
        "answers": answers.of_case(case, alarms),
    }


def _right_or_unknown(jobs: Iterable[Mapping[str, Any]]) -> float | None:
    """Share of the ``jobs`` whose dp and pp are right, or given as unknown."""
    fair = [
        all(job["inferred"][axis] in (None, job["true"][axis]) for axis in ("dp", "pp"))
        for job in jobs
    ]
    return sum(fair) / len(fair) if fair else None


def named_by(case: Case, alarms: Alarms) -> list[Row]:
    """For each finding its confidence, and whether what it names is right for some fault.

    ``first`` is the culprit, ``in_set`` the culprit or a named set that has it, ``server`` the
    server or switch of the culprit, and ``near`` that, or a named set with a part of it. A set has
    at most :data:`FEW` parts, and not all servers of its job. A finding with ``counts`` False is
    about a true hiccup, or says no more than that its job is slow, and counts neither way.
    """
    each = [_named(case, alarms, number) for number in range(len(alarms.findings))]
    return [
        {name: any(own[name] for own in faults) for name in NAMED}
        | {"confidence": float(confidence), "counts": mark in ("right", "wrong")}
        for faults, mark, confidence in zip(
            each, alarms.marks, alarms.findings["confidence"], strict=True
        )
    ]


def _named(case: Case, alarms: Alarms, number: int) -> list[Row]:
    """What finding ``number`` names right of each fault."""
    finding = {str(key): value for key, value in alarms.findings.iloc[number].items()}
    named, made = named_set(finding), []
    few = len(named) <= FEW and not _is_whole(case, finding, named)
    for index, (_, fault) in enumerate(case.truth["faults"].iterrows()):
        first, timely = (bool(one[index, number]) for one in (alarms.right, alarms.timely))
        culprit = culprit_of(fault, case.truth["ranks"])
        same = {name for name in named if same_devices(case, name, culprit)}
        here = {
            "in_set": few and bool(named & right_names(case, fault)),
            "server": finding["culprit"] in same,
            "near": finding["culprit"] in same or (few and bool(same)),
        }
        others = {name: first or (timely and right) for name, right in here.items()}
        made.append({"first": first} | others)
    return made


def _is_whole(case: Case, finding: Mapping[str, Any], named: set[str]) -> bool:
    """Whether a finding names all servers of its job, which says nothing."""
    ranks = case.truth["ranks"]
    servers = {*ranks.loc[ranks["job"] == finding["true_job"], "server"]}
    return bool(servers) and len(servers) > 1 and servers <= named


def _of_seen_ranks(case: Case) -> Case:
    """Without ranks that no flow record shows: other telemetry may show them."""
    ranks, shown = case.truth["ranks"], truth.seen_addresses(case.truth["pairs"])
    hidden = ranks.loc[~ranks["address"].isin(shown), "address"]
    ranks, *found = (
        table[~table["address"].isin(hidden)].reset_index(drop=True)
        for table in (ranks, *(case.diagnosis[name] for name in OF_RANKS))
    )
    diagnosis = case.diagnosis | dict(zip(OF_RANKS, found, strict=True))
    return replace(case, truth=case.truth | {"ranks": ranks}, diagnosis=diagnosis)


def _of_fault(case: Case, seen: Score, match: FaultMatch, alarms: Alarms) -> Row:
    """What was found of one fault: all but the steps by its top alarm."""
    fault, findings = case.truth["faults"].iloc[match.fault], alarms.findings
    row: Row = {
        "steps_right": _steps_right(seen, truth.job_of(fault, match.jobs)),
        "detected": match.detected,
        "cause": bool(match.cause_right),
        "delay": match.steps_to_detect,
    }
    if match.finding is None:
        nothing = dict.fromkeys((*NAMED, "one_of_causes"), False)
        return row | nothing | {"set_size": None, "cost_right": None}
    place = int((findings["finding"] == match.finding).to_numpy().argmax())
    finding = {str(key): value for key, value in findings.iloc[place].items()}
    causes = {str(finding["cause"]), *names_in(evidence_of(finding).get("or_causes"))}
    return row | {
        **_named(case, alarms, place)[match.fault],
        "set_size": max(1, len(named_set(finding))),
        "one_of_causes": bool(causes & causes_of(match.kind)),
        "cost_right": _cost_right(fault, findings[alarms.of[match.fault]], match.cost_error),
    }


def _cost_right(fault: pd.Series, alarms: pd.DataFrame, error: float | None) -> bool | None:
    """Whether a cost is right within :data:`NEAR`, or between bounds that the evidence gives.

    None if the truth has no cost. A finding that gives no cost is wrong.
    """
    if not has_cost(fault):
        return None
    if error is not None and error <= NEAR:
        return True
    bounds = evidence_of({"evidence": about_cost(fault, alarms)["evidence"]}).get("cost_bounds")
    if not isinstance(bounds, list) or len(bounds) != 2 or None in map(number, bounds):
        return False
    return bool(bounds[0] <= fault["extra_ns"] <= bounds[1])


def _steps_right(score: Score, job: str | None) -> bool:
    figures = score.timeline.per_job.get(str(job))
    return figures is not None and (figures.coverage or 0.0) >= RIGHT_STEPS
