"""A pipeline stage whose ranks are all slow: its share of the work is larger, on every replica.

Several slow ranks that make up a stage are no coincidence: layers are cut badly, or the last
stage has a large output layer. Where all ranks of a stage are in one server, flow records cannot
distinguish a heavy stage from a slow server.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.series import stretches
from llmprism.methods.prism.faults.suspects.ranks import Slowness, certainty, lost_in, suspects_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools, Ints
from llmprism.numerics.missing import nanmedian

ALL = 0.75  # share of the ranks of a stage, and of the steps of a stretch


def stages_and_ranks(context: Context, job: JobView, seen: Slowness) -> Iterator[Suspect]:
    """Stages that are slow as a whole, and the slow ranks beside them."""
    for suspect, rows, steps in list(stages_of(context, job, seen)):
        yield suspect
        seen.slow[rows, steps] = False
    yield from suspects_of(context, job, seen)


def stages_of(
    context: Context, job: JobView, seen: Slowness
) -> Iterator[tuple[Suspect, Ints, slice]]:
    """One suspect for every stage and stretch in which all its ranks are slow, with their cells."""
    for stage in range(job.pipelines.length):
        rows = np.flatnonzero(job.pipelines.stage == stage)
        servers = np.unique(context.topology.servers[job.phases.endpoints[rows]])
        if servers.size < 2:
            continue
        for first, last in stretches(seen.share_slow(rows) >= ALL):
            steps = slice(first, last + 1)
            shown = rows[np.isfinite(seen.ratio[rows, steps]).any(axis=1)]
            if np.unique(context.topology.servers[job.phases.endpoints[shown]]).size < 2:
                continue  # nothing is known of the ranks of the stage in other servers
            others = np.flatnonzero((job.pipelines.stage >= 0) & (job.pipelines.stage != stage))
            less = _less_slow(seen, rows, others, steps)
            alike = seen.slow[others, steps] & ~less
            if alike.size and alike.mean() > 1 - ALL:
                continue  # a good part of the other stages is slow too: not this stage's work
            seen.slow[others, steps] &= ~less
            suspect = _suspect(job, seen, stage, rows, first, last)
            yield suspect, rows, steps


def _less_slow(seen: Slowness, rows: Ints, others: Ints, steps: slice) -> Bools:
    """Where ``others`` are less than half as slow as ``rows``, for which they may wait."""
    excess = seen.ratio[others, steps] - 1
    less: Bools = excess < (nanmedian(seen.ratio[rows, steps], axis=0) - 1)[None, :] / 2
    return less


def _suspect(
    job: JobView, seen: Slowness, stage: int, rows: Ints, first: int, last: int
) -> Suspect:
    ratio = float(np.nanmedian(seen.ratio[rows, first : last + 1]))
    deviations = (ratio - 1) / max(float(np.median(seen.noise[rows])), 1e-3)
    return Suspect(
        job, "group", seen.symptom, "uneven_stage", "stage", f"{job.name} stage {stage}",
        first, last, 1 - 1 / ratio, certainty(deviations),
        {
            "stage": stage,
            "ranks": int(rows.size),
            "time_ratio": round(ratio, 4),
            "deviations": round(deviations, 1),
        },
        lost_share=lost_in(seen.lost, rows, first, last),
    )  # fmt: skip
