"""Rings of a job that show other steps than most of its rings, or none, because records are merged.

NVLink joins the ranks of a job out of sight, so each ring is a part of its own. An exporter that
bridges short silences, and loses records, may leave some rings with a record for each step, and
others with many; then some of them show no steps, or too few. A ring belongs to a job if it is on
the same servers as one of the job's rings, with as many endpoints and about as many bytes, and if
its records, divided by the steps of the job, begin or end with these in every step. Rings of
another job on the same servers drift away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.jobs.together import in_step, whole_steps
from llmprism.methods.prism.kinds.characters import extents
from llmprism.methods.prism.parameters import QUARTER, SMALL
from llmprism.methods.prism.steps.assignment import by_windows
from llmprism.methods.prism.steps.stepping import Part, Stepping
from llmprism.numerics.arrays import Codes

IN_TIME = 5  # steps: fewer keep time by chance


def with_same_rings(
    jobs: Sequence[list[Part]], idle: Sequence[Part], servers: Codes
) -> list[list[Part]]:
    """The parts of each job, with its rings of smaller jobs and among the ``idle`` ones."""
    kept: list[list[Part]] = []
    for own in sorted(jobs, key=len, reverse=True):
        if not _taken_in(kept, own, servers):
            kept.append(list(own))
    for part in idle:
        _taken_in(kept, [part], servers)
    return kept


def _taken_in(jobs: Sequence[list[Part]], parts: Sequence[Part], servers: Codes) -> bool:
    """Add ``parts`` to the first of the ``jobs`` to which all of them belong, if there is one."""
    for own in jobs:
        joined = [_joined(own, part, servers) for part in parts]
        found = [part for part in joined if part is not None]
        if len(found) == len(parts):
            own += found
            return True
    return False


def _joined(own: Sequence[Part], ring: Part, servers: Codes) -> Part | None:
    """``ring`` with the steps of the job with the parts ``own``; None if it is none of them."""
    count = Counter(part.stepping.count for part in own).most_common(1)[0][0]
    sure = [part for part in own if part.stepping.count == count]
    if count < IN_TIME or ring.stepping.count == count:
        return None
    if not any(_are_alike(part, ring, servers) for part in sure):
        return None
    steps = max(sure, key=lambda part: part.stepping.quality).stepping
    times = [whole_steps(part) for part in sure]
    start = np.min([one.start_ns for one in times], axis=0)
    end = np.max([one.end_ns for one in times], axis=0)
    if (start[1:] <= end[:-1]).any():
        return None
    return _divided(ring, replace(steps, start_ns=start, end_ns=end))


def _are_alike(one: Part, other: Part, servers: Codes) -> bool:
    """Whether two parts have as many endpoints, on the same servers, and about as many bytes."""
    homes, others = (np.sort(servers[part.component.endpoints]) for part in (one, other))
    if not np.array_equal(homes, others):
        return False
    ours, theirs = (sum(each.bytes for each in part.component.classes) for part in (one, other))
    return abs(ours - theirs) <= SMALL * max(ours, theirs)


def _divided(ring: Part, job: Stepping) -> Part | None:
    """``ring`` with the steps ``job``; None if it moves less in some, or does not keep time."""
    borders = (job.end_ns[:-1], job.start_ns[1:], (job.end_ns[:-1] + job.start_ns[1:]) // 2)
    classes = ring.component.classes
    step_of = tuple(by_windows(one.traffic, borders, job.count) for one in classes)
    extent = [
        extents(one.traffic, step, job.count) for one, step in zip(classes, step_of, strict=True)
    ]
    start = np.min([begin for begin, _ in extent], axis=0)
    end = np.max([until for _, until in extent], axis=0)
    moved = np.sum(
        [
            np.bincount(step[step >= 0], one.traffic.size[step >= 0], job.count)
            for one, step in zip(classes, step_of, strict=True)
        ],
        axis=0,
    )
    usual = float(np.median(moved))
    if (start > end).any() or float(np.median(np.abs(moved - usual))) > QUARTER * usual:
        return None
    steps = replace(job, step_of=step_of, reference=0, start_ns=start, end_ns=end)
    return Part(ring.component, steps) if in_step(steps, job) else None
