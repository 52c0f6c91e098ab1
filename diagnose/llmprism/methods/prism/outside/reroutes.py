"""Connections that take another way through the fabric: uplinks failed, or hashes agree.

Records name the switches that they passed. The leaf that a connection leaves chooses its uplink by
a hash, and keeps it. If connections of a job change their way in the very steps in which it slows
down, one leaf is behind that: all of them begin or end there. Where both do, links of the leaf
failed, and whatever used them in either direction is hashed again. A leaf that hashes all
connections alike (ECMP polarisation) only sends upwards over fewer; and so does a job whose
connections meet those of another one there. A job that begins again has new connections over other
ways, which is no fault.

Usually connections take their usual way. Where they take another one until the recording ends, or
from its begin on, the faulty side of the change may be the longer one, if it has fewer uplinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from llmprism.io.spread import is_spread
from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.explanation import Explanation
from llmprism.methods.prism.links import parts_on
from llmprism.numerics.arrays import Bools, Ints

SEEN = 0.8
AT_EDGES = 2  # steps at the edges of a stretch, of which records may count into the neighbour
REHASHED = 0.6  # confidence: there is more than one reason to take other uplinks
REROUTED, FEWER = "rerouted", "fewer_uplinks"
HASHING = ["job_congestion", "ecmp"]


def reroutes(context: Context) -> Iterator[Explanation]:
    """Yield leaves at which connections of a job take other ways in some steps."""
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
    used = _uplinks(context, _ways(context, other)[:, inside], one.culprit)
    return used == list(one.evidence["uplinks_in_use"])


def _between_jobs(one: Explanation, others: list[JobView]) -> Explanation:
    """The explanation as congestion between its job and those in ``others``."""
    leaf, link = one.culprit, one.evidence["one_of"][-1]
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
    ways = _ways(context, job)
    ways = ways[(ways >= 0).any(axis=1)]
    usual = np.array([np.bincount(one[one >= 0]).argmax() for one in ways], np.int64)
    moved: Bools = (ways >= 0) & (ways != usual[:, None])
    at = np.flatnonzero(moved.any(axis=0))
    for run in np.split(at, np.flatnonzero(np.diff(at) > 1) + 1) if at.size else ():
        first, last = int(run[0]), int(run[-1])
        rest = [(last + 1, job.count - 1)] if first == 0 else []
        rest += [(0, first - 1)] if last == job.count - 1 else []
        changed = np.asarray(moved[:, run].any(axis=1))
        for steps in ((first, last), *rest):
            for one in _explained(context, job, ways, (usual, changed), steps):
                if steps not in rest or one.symptom == FEWER:
                    yield one


def _explained(
    context: Context, job: JobView, ways: Ints, moved: tuple[Ints, Bools], steps: tuple[int, int]
) -> Iterator[Explanation]:
    """The leaf at which all connections begin or end that ``moved`` from their usual way."""
    hops = [context.flows.paths[code].split("|") for code in moved[0].tolist()]
    every = [(one[0], one[-1]) for one in hops]
    pairs = [every[at] for at in np.flatnonzero(moved[1]).tolist()]
    ends = [leaf for pair in every if pair[0] != pair[1] for leaf in pair]
    leaves = set.intersection(*map(set, pairs), set(ends))  # no connection leaves the others
    sends = {leaf: sum(pair[0] == leaf for pair in pairs) for leaf in leaves}
    kept = {leaf: _keeps_links(context, job, steps, leaf) for leaf in leaves}
    order = sorted(leaves, key=lambda leaf: (sends[leaf] == 0, kept[leaf], ends.count(leaf), leaf))
    begins, edges = job.phases.first_of_epoch[1:, None], np.array([steps[0], steps[1] + 1])
    if not order or (np.abs(begins - edges) <= AT_EDGES).any():
        return
    leaf = order[0]
    inside = np.zeros(job.count, np.bool_)
    inside[steps[0] : steps[1] + 1] = True
    left, before = (_uplinks(context, ways[:, part], leaf) for part in (inside, ~inside))
    gone = [name for name in before if name not in left]
    both = 0 < sends[leaf] < len(pairs)
    causes = ["failed_uplinks", "polarised_hashing"]
    cause, other = causes if both or len(left) > 1 else causes[::-1]
    share = len(pairs) / ends.count(leaf)
    yield Explanation(
        job, "network", FEWER if len(left) < len(before) else REROUTED, cause, "switch", leaf,
        *steps, min(share, 1.0), SEEN / len(order) if both else REHASHED,
        {
            "share_of_connections_on_another_way": round(share, 3),
            "uplinks_in_use": left,
            "uplinks_no_longer_used": gone,
            "one_of": [*order, *("|".join(sorted((leaf, name))) for name in left)],
            "or_causes": [other, *HASHING],
        },
    )  # fmt: skip


@measured_once
def _ways(context: Context, job: JobView) -> Ints:
    """Code of the path of each connection in each step; -1 for none that is known or several.

    A connection that is spread over several paths has no usual way, and so none at all.
    """
    hidden = np.array(["?" in path for path in context.flows.paths] + [True])
    found = []
    for part in job.phases.classes:
        known, cell = part.cells(context.connections, job.count)
        took = context.flows.path[part.one.traffic.row[known]].astype(np.int64)
        cell, took = cell[~hidden[took]], took[~hidden[took]]
        cells = part.one.connections.size * job.count
        least, most = np.full(cells, hidden.size), np.full(cells, -1)
        np.minimum.at(least, cell, took)
        np.maximum.at(most, cell, took)
        ways = np.where(least < most, -1, most).reshape(-1, job.count)
        for row, connection in enumerate(part.one.connections.tolist()):
            if is_spread(context.flows, context.connections.by.rows(connection)):
                ways[row] = -1
        found.append(ways)
    return np.concatenate(found)


def _keeps_links(context: Context, job: JobView, steps: tuple[int, int], leaf: str) -> bool:
    """Whether all links of a leaf carry records of any job in some steps: none of them failed."""
    flows, (first, last) = context.flows, steps
    inside = (flows.start_ns >= job.start_ns[first]) | (first == 0)
    inside &= (flows.start_ns < job.end_ns[last]) | (last == job.count - 1)
    every, used = (
        {part for part in parts_on(flows, codes) if "|" in part and leaf in part.split("|")}
        for codes in (flows.path, flows.path[inside])
    )
    return every == used


def _uplinks(context: Context, ways: Ints, leaf: str) -> list[str]:
    """The switches to which ``leaf`` sends what comes from its NICs."""
    paths = [context.flows.paths[code].split("|") for code in np.unique(ways[ways >= 0]).tolist()]
    return sorted({hops[1] for hops in paths if hops[0] == leaf and len(hops) > 1})
