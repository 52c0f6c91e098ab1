"""Steps that are alike: what a job does in all of them is the same, so they show what is normal.

Three things make steps differ without any fault. A program saves or evaluates at equal distances (a
*habit*). A save is seen in the records, as bytes that go to servers of no rank. And another job
that runs on the same links takes its share of them while it runs. Steps with the same answer to all
three are of one kind, and each is compared with its own kind only. Another job that changes nothing
makes no kind.
"""

from __future__ import annotations

import numpy as np

from llmprism.methods.prism.baseline import spread
from llmprism.methods.prism.context import Context, JobView, measured_once
from llmprism.methods.prism.links import parts_on
from llmprism.methods.prism.parameters import (
    FEWEST_HABITS,
    HABIT_DEVIATIONS,
    LACKING,
    NOISE_FLOOR,
    VARIES,
)
from llmprism.methods.prism.saving import saving_steps
from llmprism.methods.prism.windows import SHAPE, log_density
from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import TO_SIGMA, nanmedian


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


def habits(length_ns: Floats) -> Ints:
    """A number for each habit of a job in its steps, found one by one; 0 for others."""
    kind = np.zeros(length_ns.size, np.int64)
    while (found := _habit(np.where(kind > 0, np.nan, length_ns))).any():
        kind[found & (kind == 0)] = kind.max() + 1
    return kind


def _habit(length_ns: Floats) -> Bools:
    """Steps that are longer at equal distances over the whole recording, shape (steps,).

    Every distance and first step is a hypothesis, likelier than none by what its steps gain if
    all are longer by about their median, and than steps at any places that each have their own
    length. Those beside them are not as long. Noise is that of the shorter half of all steps.
    """
    steps = length_ns.size
    known = np.isfinite(length_ns)
    known[:1] = False  # it is not known when the first step began
    found = np.zeros(steps, np.bool_)
    if known.sum() < 2 * FEWEST_HABITS:
        return found
    middle, low = np.quantile(length_ns[known], [0.5, 0.25]).tolist()
    if middle <= 0:  # usual steps without a length: none is longer by a share of it
        return found
    known &= np.nan_to_num(length_ns) > middle / 2  # less is no whole step
    noise = max((middle - low) * TO_SIGMA, NOISE_FLOOR * middle)
    off = np.where(known, (length_ns - middle) / noise, 0.0)
    beside = np.pad(np.where(known, off, np.nan), 1, constant_values=np.nan)
    nearby = np.nan_to_num(nanmedian(np.stack([beside[:-2], beside[2:]]).T, axis=1))
    usual = log_density(off)
    best = 0.0
    for period in range(2, steps // FEWEST_HABITS + 2):
        for first in range(period):
            at = np.arange(first, steps, period)
            at = at[known[at]]
            if at.size < FEWEST_HABITS or off[at].min() <= 0:
                continue
            longer = float(np.median(off[at]))
            if longer <= max(HABIT_DEVIATIONS, 2 * np.median(nearby[at])):
                continue
            varies, others = float(np.hypot(1, VARIES * longer)), at.size - 1
            alike = float(log_density((off[at] - longer) / varies).sum()) - others * np.log(varies)
            apart = (2 - at.size) * np.log(steps) - others * np.log(longer)
            gain = alike - 2 * float(np.log(steps)) - SHAPE - float(usual[at].sum())
            if gain > best and alike > apart:
                best, found = gain, np.zeros(steps, np.bool_)
                found[first or period :: period] = True  # nothing is known of the first step
    return found


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
    """Whether steps beside another job have another length than those without it."""
    known = np.isfinite(length_ns)
    own, without = length_ns[known & (label > 0)], length_ns[known & (label == 0)]
    if not own.size or not without.size:
        return False
    usual = float(np.median(without))
    noise = float(np.nan_to_num(spread(length_ns[None])[0])) / np.sqrt(min(own.size, without.size))
    least = max(HABIT_DEVIATIONS * noise, NOISE_FLOOR * usual)
    return bool(abs(float(np.median(own)) - usual) > least)


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
