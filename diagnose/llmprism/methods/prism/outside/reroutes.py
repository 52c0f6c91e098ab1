"""Traffic that suddenly uses fewer uplinks of a leaf: they failed, or all hashes agree.

Records name the switches that they passed. Where a job slows down in the very steps in which an
uplink that it used before carries nothing, its connections share what is left. Failed uplinks are
empty in both directions. A job that begins again has new connections over other paths, which is no
fault. A leaf that hashes all connections alike (ECMP polarisation) only sends
upwards over fewer; and so does a job whose connections meet those of another one there.

Of many uplinks a leaf may lose one or two. Then each spine may still be used, but the leaf hashes
its connections again: many of them change their uplink in the same step, and no connection of any
other leaf does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from llmprism.methods.prism.context import Context, JobView
from llmprism.methods.prism.explanation import Explanation
from llmprism.numerics.arrays import Bools, Ints

SURE = 0.8
AT_EDGES = 2  # steps at the edges of a stretch, of which records may count into the neighbour
REHASHED = 0.6  # confidence: there is more than one reason to take other uplinks
MANY = 0.25  # share of the connections of a leaf that change their uplink at once
BEFORE = 3  # steps that show which uplink a connection takes
REROUTED, FEWER = "rerouted", "fewer_uplinks"
HASHING = ["job_congestion", "ecmp"]


def reroutes(context: Context) -> Iterator[Explanation]:
    """Yield leaves of which a job uses fewer uplinks in some steps."""
    for job in context.jobs:
        for one in _of_job(context, job):
            others = [other for other in context.jobs if _meets(context, one, other)]
            yield _between_jobs(one, others) if others else one


def _meets(context: Context, one: Explanation, other: JobView) -> bool:
    """Whether ``other`` sends from the leaf over the one uplink that is left, and no other."""
    if other is one.job or len(one.evidence["uplinks_in_use"]) != 1:
        return False
    during = (other.end_ns > one.job.start_ns[one.first]) & (
        other.start_ns < one.job.end_ns[one.last]
    )
    inside = np.flatnonzero(during)[1:-1]  # the steps at the edges are partly outside
    used = {b for (a, b), steps in _used(context, other).items()
            if a == one.culprit and steps[inside].any()}  # fmt: skip
    return used == set(one.evidence["uplinks_in_use"])


def _between_jobs(one: Explanation, others: list[JobView]) -> Explanation:
    """The explanation as congestion between its job and those in ``others``."""
    leaf, link = one.evidence["one_of"][:2]
    evidence = {
        **one.evidence,
        "one_of": [link, leaf],
        "or_causes": ["polarised_hashing"],
        "with_jobs": [one.job.name, *(other.name for other in others)],
    }
    return replace(
        one, cause="job_congestion", culprit_kind="link", culprit=link, evidence=evidence
    )


def _of_job(context: Context, job: JobView) -> Iterator[Explanation]:
    used = _used(context, job)
    leaves = sorted({a for a, b in used if (b, a) in used})
    for leaf in leaves:
        up = {b: steps for (a, b), steps in used.items() if a == leaf}
        down = {a: steps for (a, b), steps in used.items() if b == leaf}
        if not _is_lower(context, leaf):
            continue
        fewer = _fewer(up)
        if fewer is None:
            yield from _rehashed(context, job, leaf)
        if fewer is None or _restarts(job, *fewer):
            continue
        left = [name for name, steps in up.items() if steps[fewer[0] : fewer[1] + 1].all()]
        gone = [name for name in up if name not in left]
        back = [down[name][fewer[0] : fewer[1] + 1].any() for name in gone if name in down]
        yield _explanation(job, leaf, left, gone, both=bool(back) and not any(back), steps=fewer)


def _rehashed(context: Context, job: JobView, leaf: str) -> Iterator[Explanation]:
    """The leaf, if many connections take another uplink in some steps, all in a row."""
    took, names = _uplinks_of(context, job, leaf)
    usual = [np.bincount(one[:BEFORE][one[:BEFORE] >= 0]) for one in took]
    first = np.array([own.argmax() if own.size else -1 for own in usual])
    known = (took >= 0) & (first >= 0)[:, None]
    share = ((took != first[:, None]) & known).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    at = np.flatnonzero(share >= MANY)
    if not at.size or int((share > 0).sum()) > at.size + AT_EDGES:
        return
    steps = int(at[0]), int(at[-1])
    if at.size < steps[1] - steps[0] + 1 or steps[0] < BEFORE or _restarts(job, *steps):
        return
    moved = float(np.median(share[at]))
    inside = took[:, steps[0] : steps[1] + 1]
    left = [names[one] for one in np.unique(inside[inside >= 0]).tolist()]
    causes = ["failed_uplinks", "polarised_hashing"]
    cause, other = causes if len(left) > 1 else causes[::-1]
    yield Explanation(
        job, "network", REROUTED, cause, "switch", leaf, *steps, moved, REHASHED,
        {
            "share_of_connections_on_another_uplink": round(moved, 3),
            "uplinks_in_use": left,
            "one_of": [leaf, *("|".join(sorted((leaf, name))) for name in left)],
            "or_causes": [other, *HASHING],
        },
    )  # fmt: skip


def _uplinks_of(context: Context, job: JobView, leaf: str) -> tuple[Ints, list[str]]:
    """The next switch after ``leaf`` on the way of each connection of ``job`` in each step.

    A number for each switch, and their names; -1 where there is none, and -2 for several.
    """
    after = np.full(len(context.flows.paths) + 1, -1)  # the last one is that of no path
    number: dict[str, int] = {}
    for code, path in enumerate(context.flows.paths):
        for a, b in pairwise(path.split("|")):
            if a == leaf and "?" not in b:
                after[code] = number.setdefault(b, len(number))
    found = []
    for part in job.phases.classes:
        known, cell = part.cells(context.connections, job.count)
        took = after[context.flows.path[part.one.traffic.row[known]]]
        cell, took = cell[took >= 0], took[took >= 0]
        cells = part.one.connections.size * job.count
        least, most = np.full(cells, len(number)), np.full(cells, -1)
        np.minimum.at(least, cell, took)
        np.maximum.at(most, cell, took)
        found.append(np.where(least < most, -2, most).reshape(-1, job.count))
    every = np.concatenate(found)
    return every[(every != -1).any(axis=1)], [*number]


def _restarts(job: JobView, first: int, last: int) -> bool:
    """Whether ``job`` began again where fewer uplinks begin or end: its connections are others."""
    begins = job.phases.first_of_epoch[1:]
    edges = (first, last + 1)
    return any(abs(int(begin) - edge) <= AT_EDGES for begin in begins for edge in edges)


def _used(context: Context, job: JobView) -> dict[tuple[str, str], Bools]:
    """In which steps anything of ``job`` goes from one switch to the next."""
    used: dict[tuple[str, str], Bools] = {}
    for part in job.phases.classes:
        known = part.step >= 0
        path = context.flows.path[part.one.traffic.row[known]].astype(np.int64)
        both = np.unique(path * job.count + part.step[known])
        codes, steps = np.divmod(both[both >= 0], job.count)
        for code, step in zip(codes.tolist(), steps.tolist(), strict=True):
            for pair in pairwise(context.flows.paths[code].split("|")):
                if "?" not in pair:
                    used.setdefault(pair, np.zeros(job.count, np.bool_))[step] = True
    return used


def _is_lower(context: Context, switch: str) -> bool:
    """Whether NICs are at the switch."""
    return any(end.switch == switch for end in context.topology.endpoints)


def _fewer(up: dict[str, Bools]) -> tuple[int, int] | None:
    """The steps, all in a row, in which fewer uplinks are used than in all others; or None."""
    if len(up) < 2:
        return None
    count = np.sum(list(up.values()), axis=0)
    low = np.flatnonzero(count == count.min())
    if count.min() == 0 or count.min() == count.max():
        return None
    runs = np.split(low, np.flatnonzero(np.diff(low) > 1) + 1)
    longest = max(runs, key=len)
    rest = np.delete(count, longest)
    if (rest < count.max()).sum() > AT_EDGES:
        return None
    return int(longest[0]), int(longest[-1])


def _explanation(
    job: JobView, leaf: str, left: list[str], gone: list[str], *, both: bool, steps: tuple[int, int]
) -> Explanation:
    links = ["|".join(sorted((leaf, name))) for name in left]
    share = len(gone) / (len(left) + len(gone))
    return Explanation(
        job, "network", FEWER, "failed_uplinks" if both else "polarised_hashing",
        "switch", leaf, *steps, share, SURE if both else REHASHED,
        {
            "uplinks_in_use": left,
            "uplinks_no_longer_used": gone,
            "one_of": [leaf, *links],
            "or_causes": ["polarised_hashing"] if both else HASHING,
        },
    )  # fmt: skip
