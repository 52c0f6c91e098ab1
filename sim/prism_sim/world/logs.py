"""The jobs of a simulated world as their logs need them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from prism_sim.logs.simulated import (
    CHECKPOINT,
    EVALUATION,
    Attempt,
    FlowFault,
    SimulatedJob,
)
from prism_sim.run_folder import Run
from prism_sim.training.placed import PlacedJob
from prism_sim.world.world import World


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
