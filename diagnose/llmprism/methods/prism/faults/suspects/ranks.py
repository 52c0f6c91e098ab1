"""From endpoints that are slow in some steps to suspects.

All ranks of a tensor-parallel group are as slow as the slowest of them, and flows show no
traffic between them: where several NICs of a server are slow together, the server is named,
and which of its NICs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.measures.series import DEVIATIONS, stretches
from llmprism.methods.prism.faults.suspects.cost import middle_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import nanmedian

MOSTLY = 0.5  # share of NICs, or steps, from which all are meant
COMMON = 0.4  # share of its slowness that the others have, from which a rank is not slow alone
FINEST = 1e-3  # noise is not taken to be smaller than this


@dataclass(frozen=True)
class Slowness:
    """How slow endpoints are, by endpoint and step.

    Attributes
    ----------
    symptom : what is slow.
    ratio : time taken over that of healthy steps.
    noise : deviation of ``ratio``, by endpoint.
    slow : whether the endpoint is to blame.
    lost, surely_lost : time that each loses at most and at least, as a share of a step.
    """

    symptom: str
    ratio: Floats
    noise: Floats
    slow: Bools
    lost: Floats
    surely_lost: Floats

    def share_slow(self, rows: Ints) -> Floats:
        """Share of the endpoints ``rows`` that is slow in each step, of those that are known."""
        slow = self.slow[rows]
        known = slow | np.isfinite(self.ratio[rows])
        share: Floats = slow.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return share


def typical(values: Floats, rows: Ints, first: int, last: int) -> float | None:
    """The median of some rows in a stretch of steps; None where nothing is known."""
    inside = values[rows, first : last + 1]
    return float(np.nanmedian(inside)) if np.isfinite(inside).any() else None


def lost_in(values: Floats, rows: Ints, first: int, last: int) -> float | None:
    """What some rows lose in a step of a stretch; None where nothing is known.

    The median, or the mean without the longest one, as the cost has it, if that is more: who comes
    and goes may lose little in most steps.
    """
    middle = typical(values, rows, first, last)
    if middle is None:
        return None
    return max(middle, middle_of(nanmedian(values[rows, first : last + 1], axis=0)))


def suspects_of(context: Context, job: JobView, seen: Slowness) -> Iterator[Suspect]:
    """One suspect for every server and stretch of steps in which it is slow."""
    servers = context.topology.servers[job.phases.endpoints]
    some = seen.slow.any(axis=1)
    for server in np.unique(servers[some]).tolist():
        rows = np.flatnonzero((servers == server) & some)
        for first, last in stretches(seen.share_slow(rows) >= MOSTLY):
            inside = rows[seen.slow[rows, first : last + 1].mean(axis=1) >= MOSTLY]
            if inside.size and not _in_common(seen.ratio, inside, first, last):
                yield _suspect(context, job, seen, inside, (first, last))


def _in_common(ratio: Floats, rows: Ints, first: int, last: int) -> bool:
    """Whether most other ranks take longer too, so that ``rows`` have not much of their own.

    Ranks wait for a slow one, and waiting is not counted. What they share is the load of a host.
    """
    own = float(np.nanmedian(ratio[rows, first : last + 1])) - 1
    return _others(ratio, rows, first, last) - 1 > COMMON * own


def _suspect(
    context: Context, job: JobView, seen: Slowness, rows: Ints, extent: tuple[int, int]
) -> Suspect:
    first, last = extent
    ends = job.phases.endpoints[rows]
    names = [context.topology.addresses[end] for end in ends.tolist()]
    ratio = float(np.nanmedian(seen.ratio[rows, first : last + 1]))
    alone, stage = len(names) == 1, _whole_stage(job, rows)
    server = context.topology.endpoints[int(ends[0])].server
    deviations = (ratio - 1) / max(float(np.median(seen.noise[rows])), FINEST)
    return Suspect(
        job, "rank", seen.symptom, "slow_gpu",
        "address" if alone else "server", names[0] if alone else server,
        first, last, 1 - 1 / ratio, certainty(deviations),
        {
            "server": server,
            "one_of": [*names, *stage],
            "or_causes": _or_causes(alone=alone, stage=bool(stage)),
            "time_ratio": round(ratio, 4),
            "time_ratio_of_others": round(_others(seen.ratio, rows, first, last), 4),
            "deviations": round(deviations, 1),
        },
        lost_share=lost_in(seen.lost, rows, first, last),
        weight=1.0 + (typical(seen.surely_lost, rows, first, last) or 0.0),
    )  # fmt: skip


def _or_causes(*, alone: bool, stage: bool) -> list[str]:
    """Other causes of the same traffic: who computes, and what it waits for, is not seen."""
    return [
        *(["degraded_nvlink"] if alone else ["slow_server", "degraded_nvlink"]),
        *(["uneven_stage"] if stage else []),
    ]


def _whole_stage(job: JobView, rows: Ints) -> list[str]:
    """The stage whose ranks are ``rows``, all of them, if there is one."""
    stage = np.unique(job.pipelines.stage[rows])
    members = int((job.pipelines.stage == stage[0]).sum())
    whole = stage.size == 1 and stage[0] >= 0 and members == rows.size
    return [f"{job.name} stage {stage[0]}"] if whole else []


def certainty(deviations: float) -> float:
    """Confidence: a half at the bar that counts as out, near 1 far beyond it."""
    return min(0.99, 1 - 0.5 / max(1.0, deviations / DEVIATIONS))


def _others(ratio: Floats, rows: Ints, first: int, last: int) -> float:
    rest = np.delete(ratio[:, first : last + 1], rows, axis=0)
    return float(np.nanmedian(rest)) if np.isfinite(rest).any() else 1.0
