"""The truth tables of a run except spans, which are written while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from prism_common.kinds import AXES
from prism_sim.run_folder import TRUTH, Run
from prism_sim.training.placed import PlacedJob
from prism_sim.world.faults import ActiveFault, FaultSchedule
from prism_sim.world.slowdowns import UNKNOWN, Slowdown, slowdowns
from prism_sim.world.world import World

INTEGERS = ("rank", "from_step", "to_step", "extra_ns")
"""Columns of the faults that may be null."""


def write_truth(world: World, run: Run) -> None:
    """Write ranks, layouts, steps, hiccups, pairs and faults."""
    measured = slowdowns(world) if world.scenario.measure_faults else {}
    epoch_ns = world.scenario.epoch_ns
    jobs = world.jobs.values()
    ranks, steps = [job.ranks() for job in jobs], [job.steps(epoch_ns) for job in jobs]
    for name, frames in (
        ("ranks", ranks),
        ("steps", steps),
        ("hiccups", [job.hiccups() for job in jobs]),
        ("layouts", [_layout(*each) for each in zip(jobs, ranks, steps, strict=True)]),
        ("pairs", [world.collector.pairs()]),
        ("faults", [faults_table(world.faults, epoch_ns, measured)]),
    ):
        empty = TRUTH[name].empty_table().to_pandas()
        run.write_truth(name, pd.concat(frames, ignore_index=True) if frames else empty)


def _layout(job: PlacedJob[Any, Any], ranks: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """The layout of one job: a row with the number of places along every axis."""
    sizes = {axis: ranks[axis].nunique() for axis in AXES}
    lengths = steps["end_ns"] - steps["start_ns"]
    period = int(lengths.median()) if len(lengths) else -1
    return pd.DataFrame([{"job": job.model.name, **sizes, **job.plan(), "period_ns": period}])


def faults_table(
    schedule: FaultSchedule, epoch_ns: int, measured: Mapping[int, Slowdown] | None = None
) -> pd.DataFrame:
    """The faults that actually began, one row each, with the slowdown where it was ``measured``."""
    rows = [
        _fault_row(active, schedule, epoch_ns, (measured or {}).get(number, UNKNOWN))
        for number, active in enumerate(schedule.all)
        if active.start_ns is not None
    ]
    frame = pd.DataFrame(rows, columns=TRUTH["faults"].names[1:])
    frame.insert(0, "fault", np.arange(len(frame)))
    return frame.astype(dict.fromkeys(INTEGERS, "Int64") | {"slowdown": "float64"})


def _fault_row(
    active: ActiveFault, schedule: FaultSchedule, epoch_ns: int, slowdown: Slowdown
) -> dict[str, Any]:
    fault, target = active.fault, schedule.target
    culprit = fault.culprit(target)
    assert active.start_ns is not None
    end_ns = target.clock.now if active.end_ns is None else active.end_ns
    return {
        "kind": fault.kind,
        "culprit_kind": culprit.kind,
        "culprit": culprit.name,
        "job": culprit.job or fault.job,
        "rank": culprit.rank,
        "switch": culprit.name if culprit.kind == "switch" else None,
        "jobs": json.dumps(fault.jobs_affected(target)),
        "factor": fault.speed,
        "magnitude": fault.magnitude(target),
        "from_step": fault.from_step,
        "to_step": fault.to_step,
        "start_ns": epoch_ns + active.start_ns,
        "end_ns": epoch_ns + end_ns,
        "slowed_job": slowdown.job,
        "slowdown": slowdown.share,
        "extra_ns": slowdown.extra_ns,
    }
