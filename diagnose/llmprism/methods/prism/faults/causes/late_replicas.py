"""Replicas of a pipeline that come late to their collectives, where no stage's passes are seen.

Messages that are merged, sampled or rounded hide how long a stage computes. The begin of a
collective shows which replica is late all the same. All stages before the slow one end as late as
it does, since each waits for its gradients. The stages after it need its activations alone, and
are less late. So the last stage that is as late as the latest one is named first, unless an earlier
one sends its first activation of the step late already: it was delayed before it computed. The
other stages of the replica are named with it ("X or Y").

Where collectives have too few hops to show who is late, the last gradient of each replica does.

A rank that has done its first and last pass of the step as fast as ever is not the slow one, if a
record shows both. So it comes after the others. Where passes cannot be counted, they may be many.

Replicas do the same, so one that is late in every second step is not taken for a noisy one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.methods.prism.faults.context import Context, JobView
from llmprism.methods.prism.faults.lateness.own_time import SMALLEST, lateness_ns
from llmprism.methods.prism.faults.measures.rates import ROUNDING
from llmprism.methods.prism.faults.measures.series import excess_of, judged, stretches
from llmprism.methods.prism.faults.passes.edges import (
    edge_passes_ns,
    first_activations_ns,
    last_gradients_ns,
)
from llmprism.methods.prism.faults.passes.late_starts import in_time
from llmprism.methods.prism.faults.suspects.ranks import Slowness, suspects_of
from llmprism.methods.prism.faults.suspects.suspects import Suspect
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import deviation, finite_median, nanmedian

SYMPTOM = "late_replica"
LEAST = 0.02  # of a step; passes show less
MOST = 0.5  # share of the replicas; if more are late, nobody is
DOUBT = 0.7  # of the confidence, as the stage is inferred
FROM_THE_START = 0.5  # of the delay: a stage whose first activation is as late is the cause
CLEARED = 0.25  # of the delay: who lost less in all passes, so far as two of them show, is healthy
MANY = 64  # messages of a step; more are rare
CLEARLY = 3.0  # deviations by which a stage is less late than another one
OR_CAUSES = ["slow_nic", "slow_link"]  # slow messages between stages delay a replica as well


def late_replicas(context: Context) -> Iterator[Suspect]:
    """Bring forward the rank of a late replica that makes it late."""
    for job in context.jobs:
        if job.pipelines.length < 2 or not job.period_ns > 0:
            continue
        late = _late_ns(context, job) / job.period_ns
        tick_ns = clock_tick_ns(context.flows.start_ns, context.flows.end_ns)
        finest = ROUNDING * tick_ns / job.period_ns
        own = judged(1 + late, LEAST, finest, peers=True, levels=True)
        shown = _first_late(context, job), _longer_passes(context, job)
        slow, others = _blamed(job, late, shown, own.lasting)
        lost = np.maximum(own.ratio - 1, 0.0)
        seen = Slowness(SYMPTOM, 1 + lost, own.noise, slow, late, late)
        for one in suspects_of(context, job, seen):
            yield _with_others(context, job, one, others)


def _late_ns(context: Context, job: JobView) -> Floats:
    """By how much each endpoint is later than its peers at collectives [ns].

    Or by how much its last gradient is later, if collectives do not show it. Of two replicas that
    share hosts one is always later.
    """
    late = lateness_ns(context, job)
    last = last_gradients_ns(context, job)
    for stage in range(job.pipelines.length):
        rows = np.flatnonzero(job.pipelines.stage == stage)
        last[rows] -= in_time(last[rows]) if rows.size >= SMALLEST else np.nan
    known = np.isfinite(late).any(axis=1)
    found: Floats = np.where(known[:, None], late, last)
    return found


def _longer_passes(context: Context, job: JobView) -> Floats:
    """How much longer the first and last pass of each endpoint take, (endpoints, steps).

    As a share of a step, mean of both; NaN where not both of them are known.
    """
    passes = edge_passes_ns(context, job)
    excess, known = excess_of(passes)
    both = np.where(known == passes.shape[2], excess, np.nan)
    longer: Floats = both / passes.shape[2] / job.period_ns
    return longer


def _first_late(context: Context, job: JobView) -> Floats:
    """By how much first activations are later than those of other replicas, as shares of a step."""
    sent = first_activations_ns(context, job)
    late = np.full(sent.shape, np.nan)
    for stage in range(job.pipelines.length):
        rows = job.pipelines.stage == stage
        late[rows] = sent[rows] - nanmedian(sent[rows], axis=0)
    usual = nanmedian(late, axis=1)[:, None]
    shares: Floats = (late - usual) / job.period_ns
    return shares


def _blamed(
    job: JobView, late: Floats, shown: tuple[Floats, Floats], out: Bools
) -> tuple[Bools, dict[int, list[int]]]:
    """The steps in which each endpoint makes its replica late; and the others of the replica."""
    number = job.pipelines.number
    lanes = [np.flatnonzero(number == one) for one in np.unique(number[number >= 0]).tolist()]
    lanes = [rows for rows in lanes if np.isfinite(late[rows]).any()]
    blamed, others = np.zeros_like(out), dict[int, list[int]]()
    if not lanes:
        return blamed, others
    behind = np.array([out[rows].any(axis=0) for rows in lanes])
    behind &= (behind.mean(axis=0) <= MOST)[None, :]
    for rows, steps in zip(lanes, behind, strict=True):
        for first, last in stretches(steps):
            at = first + np.flatnonzero(steps[first : last + 1])
            ordered = _in_doubt_order(job, late, shown[0], rows, at)
            ordered = _cleared_last(late, shown[1], at, ordered, job.pipelines.messages)
            blamed[ordered[0], first : last + 1] = steps[first : last + 1]
            others[ordered[0]] = ordered[1:]
    return blamed, others


def _cleared_last(
    late: Floats, longer: Floats, steps: Ints, ordered: list[int], messages: int
) -> list[int]:
    """``ordered``, those whose passes are not longer by what would make them late at the end.

    A step has so many ``messages``, -1 where they cannot be counted.
    """
    times = messages if messages > 0 else MANY
    bar = CLEARED * max(finite_median(late[row, steps]) for row in ordered)
    return sorted(ordered, key=lambda row: times * finite_median(longer[row, steps]) < bar)


def _in_doubt_order(
    job: JobView, late: Floats, first_late: Floats, rows: Ints, steps: Ints
) -> list[int]:
    """The endpoints of a replica, the one that makes it late first."""
    rows = rows[np.argsort(-job.pipelines.stage[rows])]
    middle = np.array([finite_median(late[row, steps]) for row in rows.tolist()])
    latest = int(np.nanargmax(middle))
    for row in rows[::-1].tolist():
        if finite_median(first_late[row, steps]) > FROM_THE_START * middle[latest]:
            return [row, *(one for one in rows.tolist() if one != row)]
    for row in rows.tolist():
        less = late[rows[latest], steps] - late[row, steps]
        less = less[np.isfinite(less)]
        if not less.size:
            continue
        spread = deviation(less) / np.sqrt(less.size)
        if float(np.median(less)) <= max(CLEARLY * spread, LEAST / 2):
            return [row, *(one for one in rows.tolist() if one != row)]
    return [int(row) for row in rows]


def _with_others(
    context: Context, job: JobView, one: Suspect, others: dict[int, list[int]]
) -> Suspect:
    """``one``, whose finding names the other ranks of its replica as well."""
    names = context.topology.addresses
    own = list(one.evidence["one_of"])
    place = {names[end]: row for row, end in enumerate(job.phases.endpoints.tolist())}
    ranks = [place[name] for name in own if name in place]  # a stage may be among them
    more = [names[job.phases.endpoints[row]] for rank in ranks for row in others.get(rank, [])]
    evidence = {
        **one.evidence,
        "one_of": list(dict.fromkeys([*own, *more])),
        "or_causes": [*one.evidence["or_causes"], *OR_CAUSES],
    }
    return replace(one, evidence=evidence, confidence=DOUBT * one.confidence, weight=0.0)
