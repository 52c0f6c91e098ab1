"""Attempts of one job: what follows on the same endpoints after a failure.

A restarted job opens new connections. Components that follow one another on the same
endpoints, with the same volume in a step and the same share of it two-way, are one job. Others
have addresses that pass from one job to the next.

An attempt may be too short for this: only some of its ranks show steps, or no update shows that
what repeats are micro-batches. Such an attempt is no job of its own; its steps are counted by the
bytes of the other attempt (:mod:`~llmprism.methods.prism.jobs.short_attempts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.parameters import QUARTER
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.stepping import Part
from llmprism.numerics.arrays import Codes, Floats

SAME_VOLUME = 0.05  # of what an endpoint moves in a step: difference that counts as none


@dataclass(frozen=True)
class Job:
    """Parts that belong together, in order of time.

    Attributes
    ----------
    endpoints : endpoint codes, sorted.
    epochs : parts of the job in time, one for each attempt.
    """

    endpoints: Codes
    epochs: tuple[tuple[Part, ...], ...]


def restarted(jobs: list[Job], connections: Connections) -> list[Job]:
    """Join jobs that follow one another on the same endpoints and move the same volumes."""
    joined: list[Job] = []
    for job in sorted(jobs, key=_begin):
        before = next(
            (i for i, old in enumerate(joined) if _continues(old, job, connections)), None
        )
        if before is None:
            joined.append(job)
        else:
            joined[before] = Job(job.endpoints, joined[before].epochs + job.epochs)
    return joined


def _continues(old: Job, new: Job, connections: Connections) -> bool:
    """Whether the job ``new`` is a later attempt of ``old``: same endpoints, volumes and shares."""
    if not np.array_equal(old.endpoints, new.endpoints) or _end(old) > _begin(new):
        return False
    shares = [_two_way_share(job.epochs[-1]) for job in (old, new)]
    if abs(shares[0] - shares[1]) > QUARTER:
        return False  # addresses pass from a ring to a pipeline, say
    volumes = [_volumes(job.epochs[-1], connections, old.endpoints) for job in (old, new)]
    return bool(np.all(np.abs(volumes[0] - volumes[1]) <= SAME_VOLUME * volumes[0]))


def _two_way_share(parts: Sequence[Part]) -> float:
    """Share of the bytes of ``parts`` that are answered by as many the other way."""
    classes = [one for part in parts for one in part.component.classes]
    total = sum(one.bytes for one in classes)
    return sum(one.bytes for one in classes if one.two_way) / max(total, 1.0)


def _volumes(parts: Sequence[Part], connections: Connections, ends: Codes) -> Floats:
    """Median bytes that each of the job's endpoints ``ends`` sends in a step."""
    count = max(part.stepping.count for part in parts)
    volume = np.zeros((ends.size, count))
    for part in parts:
        for one, step in zip(part.component.classes, part.stepping.step_of, strict=True):
            sender = np.searchsorted(ends, connections.src[one.connections])
            np.add.at(volume, sender, one.volumes(connections, step, count))
    return np.asarray(np.median(volume, axis=1), np.float64)


def _begin(job: Job) -> int:
    return begin_of(job.epochs[0])


def _end(job: Job) -> int:
    return end_of(job.epochs[-1])


def begin_of(parts: Sequence[Part]) -> int:
    """First start of what the parts of an attempt move [ns]."""
    return min(int(one.traffic.start_ns[0]) for part in parts for one in part.component.classes)


def end_of(parts: Sequence[Part]) -> int:
    """Last end of what the parts of an attempt move [ns]."""
    return max(int(one.traffic.end_ns.max()) for part in parts for one in part.component.classes)
