"""Two faults in one job: worlds of the study of findings in which a second fault is injected.

The second fault is of another kind. In half of the worlds the windows overlap, in the others the
second fault begins after the first one has ended. The truth of each is its rerun without it, with
the other one there.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from fault_study import Row, cost_error, kept_row, simulated, verdict
from fault_worlds import FAULTS, World, draw_world, fault_of, telemetry_of
from llmprism.pipeline import diagnose_files
from prism_sim.faults import KINDS
from prism_sim.run_folder import Run
from prism_sim.score.faults import FaultMatch, score_faults
from prism_sim.score.load import Case, load

ALONE = ("expert_imbalance", "job_congestion", "slow_storage")
"""Kinds that need a world of their own."""

TOGETHER = tuple(kind for kind in FAULTS if not KINDS[kind].stops_jobs and kind not in ALONE)
FIRST_ENDS, SECOND_BEGINS, LAST = 13, 16, 25  # steps, where the windows do not overlap


def draw_pair(seed: int) -> World:
    """The world of ``seed`` with two faults."""
    stream = np.random.default_rng([seed, 2])
    kind = str(stream.choice(TOGETHER))
    world = draw_world(seed, kind)
    possible = [other for other in TOGETHER if other != kind and _fits(other, world["jobs"][0])]
    second = fault_of(stream, world, str(stream.choice(possible)))
    if stream.random() < 0.5:
        world["faults"][0] |= {"from_step": 7, "to_step": FIRST_ENDS}
        second |= {"from_step": SECOND_BEGINS, "to_step": LAST}
    world["faults"].append(second)
    return world | {"name": f"pair-{seed}"}


def _fits(kind: str, job: World) -> bool:
    """Whether a job has what a fault slows."""
    return {"uneven_stage": job["pp"] > 1, "degraded_nvlink": job["tp"] > 1}.get(kind, True)


def measured_pair(seed: int, folder: Path) -> Row:
    """What was found of the two faults of one world, from ``folder`` if it is there."""
    world = draw_pair(seed)
    run = Run(folder / world["name"])

    def measure() -> Row:
        simulated(world, run)
        shutil.rmtree(run.diagnosis_folder, ignore_errors=True)
        diagnose_files(run.flows, run.topology, method="prism").write(run.diagnosis_folder)
        case = load(run)
        score = score_faults(case)
        at_once = world["faults"][1]["from_step"] < world["faults"][0].get("to_step", np.inf)
        about = {"seed": seed, "telemetry": telemetry_of(world), "at_once": bool(at_once)}
        faults = [_compared(case, match) for match in score.matches]
        return about | {"findings": score.findings, "false": score.false_alarms, "faults": faults}

    return kept_row(run, world, measure)


def _compared(case: Case, match: FaultMatch) -> Row:
    """What was found of one of the faults."""
    fault, findings = case.truth["faults"].iloc[match.fault], case.diagnosis["findings"]
    top = findings[findings["finding"] == match.finding]
    return {
        "kind": match.kind,
        **verdict(match, fault),
        "cost_error": cost_error(case, fault, [match.finding], top) if match.localized else None,
    }
