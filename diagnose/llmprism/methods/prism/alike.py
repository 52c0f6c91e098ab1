"""Steps that are alike: what a job does in all of them is the same, so they show what is normal.

Three things make steps differ without any fault. A program saves or evaluates at equal distances (a
*habit*). A save is seen in the records, as bytes that go to servers of no rank. And another job
that runs on the same links takes its share of them while it runs. Steps with the same answer to all
three are of one kind, and each is compared with its own kind only. Another job that changes nothing
is ignored.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.links import parts_on
from llmprism.methods.prism.parameters import HABIT_DEVIATIONS, LACKING, NOISE_FLOOR, QUARTER, SMALL
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import spread


def kinds_of(context: Context, job: JobView, habit: Ints) -> Ints:
    """Kind of each step of a job, 0 for the most frequent one, shape (steps,).

    ``habit`` is not 0 for steps with a habit.
    """
    labels = [habit, saving_steps(context, job).astype(np.int64)]
    beside = [_beside(job, other) for other in context.jobs if _shares(context, job, other)]
    labels += [label for label in beside if _changes(job.between_ends_ns, label)]
    _, kind, number = np.unique(np.stack(labels), axis=1, return_inverse=True, return_counts=True)
    order = np.argsort(-number, kind="stable")
    return np.argsort(order)[kind.ravel()].astype(np.int64)


def _beside(job: JobView, other: JobView) -> Ints:
    """1 for steps in which another job runs, 0 for those without it; others have their own number.

    A job that begins again does not run in between.
    """
    firsts = other.phases.first_of_epoch
    begin_ns = other.start_ns[firsts]
    end_ns = other.end_ns[np.append(firsts[1:], other.count) - 1]
    until_ns = job.end_ns
    since_ns = np.append(job.start_ns[:1], until_ns[:-1])
    common_ns = np.minimum(until_ns[:, None], end_ns) - np.maximum(since_ns[:, None], begin_ns)
    share = np.maximum(common_ns, 0).sum(axis=1) / np.maximum(until_ns - since_ns, 1)
    whole = (share > LACKING).astype(np.int64)
    return np.where((share > LACKING) & (share < 1 - LACKING), 2 + np.arange(job.count), whole)


def _changes(length_ns: Floats, label: Ints) -> bool:
    """Whether steps beside another job are longer than those without it: nearly all of them."""
    known = np.isfinite(length_ns)
    own, without = length_ns[known & (label > 0)], length_ns[known & (label == 0)]
    if not own.size or not without.size:
        return False
    usual = float(np.median(without))
    noise = float(np.nan_to_num(spread(length_ns[None])[0])) / np.sqrt(min(own.size, without.size))
    least = max(HABIT_DEVIATIONS * noise, NOISE_FLOOR * usual)
    return bool(float(np.quantile(own, QUARTER)) - usual > least)


def _shares(context: Context, job: JobView, other: JobView) -> bool:
    """Whether records of two jobs cross the same link, or the same NIC."""
    return other is not job and bool(links_of(context, job) & links_of(context, other))


@measured_once
def links_of(context: Context, job: JobView) -> set[str]:
    """The links and the NICs that carry records of a job."""
    rows = np.concatenate([part.one.traffic.row for part in job.phases.classes])
    parts = parts_on(context.flows, context.flows.path[rows])
    nics = {context.topology.addresses[end] for end in job.phases.endpoints}
    return {part for part in parts if "|" in part} | nics


@measured_once
def saving(context: Context, job: JobView) -> Bools:
    """In which steps each address sends in bulk to others while it sends for ``job``.

    Shape (addresses, steps).
    """
    flows, servers = context.flows, context.topology.servers
    begin_ns, end_ns, usual = _sending(context, job)
    own = np.isin(servers, np.unique(servers[job.phases.endpoints]))
    rows = np.flatnonzero(own[flows.src] & ~own[flows.dst])
    sent = np.zeros_like(begin_ns)
    for step in range(job.count):
        from_ns, until_ns = begin_ns[flows.src[rows], step], end_ns[flows.src[rows], step]
        since_ns = np.maximum(flows.start_ns[rows], from_ns)
        both_ns = np.minimum(flows.end_ns[rows], until_ns) - since_ns
        share = np.maximum(both_ns, 0) / np.maximum(flows.lengths_ns(rows), 1)
        np.add.at(sent[:, step], flows.src[rows], share * flows.bytes[rows])
    return np.asarray(sent > SMALL * usual)


def saving_steps(context: Context, job: JobView) -> Bools:
    """In which steps any NIC of a job does, shape (steps,)."""
    return np.asarray(saving(context, job)[job.phases.endpoints].any(axis=0))


def _sending(context: Context, job: JobView) -> tuple[Floats, Floats, float]:
    """From when until when each address sends for ``job``, (addresses, steps); bytes in a step.

    These are the mean of the busiest address.
    """
    flows = context.flows
    shape = len(flows.addresses), max(job.count, 1)
    begin_ns, end_ns, sent = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape[0])
    for part in job.phases.classes:
        known, cell = part.cells(context.connections, job.count)
        row = part.one.traffic.row[known]
        at = flows.src[row].astype(np.int64) * shape[1] + cell % job.count
        np.minimum.at(begin_ns.ravel(), at, flows.start_ns[row].astype(np.float64))
        np.maximum.at(end_ns.ravel(), at, flows.end_ns[row].astype(np.float64))
        sent += np.bincount(flows.src[row], flows.bytes[row], shape[0])
    return begin_ns, end_ns, float(sent.max(initial=0.0)) / shape[1]
