"""The truth tables of a run except spans, which are written while it runs; jobs for their logs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from prism_common.kinds import AXES
from prism_sim.logs.simulated import CHECKPOINT, EVALUATION, Attempt, FlowFault, SimulatedJob
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


# The jobs of a simulated world as their logs need them.


def logged_jobs(world: World, run: Run) -> list[SimulatedJob]:
    """All jobs, from the truth tables of ``run``, which must have been written."""
    tables = {name: run.truth(name) for name in ("ranks", "steps", "layouts")}
    spans = pq.read_table(
        run.folder / "truth" / "spans.parquet",
        columns=["job", "step", "kind", "start_ns", "end_ns"],
        filters=[("kind", "in", [CHECKPOINT, EVALUATION])],
    ).to_pandas()
    faults = list(_faults(run.truth("faults"), tables["ranks"]))
    stopping = {a.fault.kind for a in world.faults.begun if a.fault.stops_jobs}
    found = []
    for name, job in world.jobs.items():
        own = {key: table[table["job"] == name] for key, table in tables.items()}
        layout = own["layouts"].iloc[0]
        mine = [fault for fault in faults if fault.job == name]
        found.append(
            SimulatedJob(
                name=name,
                steps=job.model.steps,
                start_ns=world.scenario.epoch_ns + round(job.model.start_s * 1e9),
                sizes=(
                    int(layout["dp"] * layout["ep"] * layout["cp"]),
                    int(layout["pp"]),
                    int(layout["tp"]),
                ),
                ranks=own["ranks"],
                table=own["steps"],
                pauses=spans[spans["job"] == name],
                attempts=_attempts(
                    job,
                    [fault for fault in mine if fault.kind in stopping],
                    world.scenario.epoch_ns,
                ),
                slowed=[fault for fault in mine if fault.kind not in stopping],
            )
        )
    return found


def _faults(faults: pd.DataFrame, ranks: pd.DataFrame) -> Iterator[FlowFault]:
    """The faults that concern a rank, or the first rank at an address or in a server."""
    rows: Iterator[Any] = faults.itertuples()
    for row in rows:
        rank = _rank(row, ranks)
        if rank is not None:
            yield FlowFault(int(row.fault), str(row.kind), rank[0], rank[1], int(row.start_ns))


def _rank(row: Any, ranks: pd.DataFrame) -> tuple[str, int] | None:
    """The job and the rank of a fault, from a row of the truth."""
    if not pd.isna(row.rank) and row.job is not None:
        return str(row.job), int(row.rank)
    if row.culprit_kind not in ("address", "server"):
        return None
    there = ranks[ranks[row.culprit_kind] == row.culprit]
    if row.job is not None:
        there = there[there["job"] == row.job]
    first = there.head(1)
    return (str(first["job"].iloc[0]), int(first["rank"].iloc[0])) if len(first) else None


def _attempts(job: PlacedJob[Any, Any], stopping: list[FlowFault], epoch_ns: int) -> list[Attempt]:
    """The attempts of a job; a planned restart names its rank, a fault is the last that began."""
    restarts = iter(getattr(job.model, "restarts", ()))
    found = [Attempt(first, lost) for first, lost in job.attempts]
    for index, (when, noticed_ns, planned) in enumerate(job.failures):
        when_ns = epoch_ns + when
        began = [fault for fault in stopping if fault.start_ns <= when_ns]
        fault = None if planned or not began else max(began, key=lambda each: each.start_ns)
        rank = next(restarts).rank if planned else fault.rank if fault else 0
        found[index] = found[index]._replace(
            failed_ns=when_ns, noticed_ns=noticed_ns, fault=fault, rank=rank
        )
    return found
