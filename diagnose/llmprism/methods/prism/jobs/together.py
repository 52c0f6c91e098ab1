"""Which components belong to one job: those whose steps, or messages, stay together in time.

The ends of their steps stay at the same distance in every step. Components of different jobs drift
against each other, even on the same servers. If their steps are nearly equally long, the drift is
small, but it adds up from step to step, as a sum of independent values does, and a step that is
long in one of them need not be long in the other. If a window holds few steps, or records are lost,
the steps of one component may be wrong. Messages that begin at the same moments show even then what
belongs together.

Two components are *twins* if they share a server, move the same volume in similar numbers of
records, and if the messages of one begin when those of the other do: the distances to the nearest
message are small beside the same distances after a shift in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.methods.prism.classes.circles import components
from llmprism.methods.prism.classes.classes import Component
from llmprism.methods.prism.kinds.characters import extents
from llmprism.methods.prism.parameters import QUARTER, SMALL
from llmprism.methods.prism.records.connections import Connections
from llmprism.methods.prism.steps.stepping import Part, Stepping
from llmprism.numerics.arrays import Codes, Floats, Ints

ALIKE, RECORDS = 0.1, 0.5  # differences in volume and number of records of twins, as a share
SHIFTS = (0.31, 0.5, 0.69)  # of the median time between bursts
TELLING = 16  # bursts that tell anything
TOGETHER = 0.015  # ends of steps of one job keep their distance within this share of a step
DRIFT = 0.003  # ... and do not drift by more than this share of a step in each step
BOUND = 0.35  # ... or within this share of how much steps differ in length
MANY, INDEPENDENT = 6, 1.3  # steps and ratio from which it is taken to be
SIGMAS = 2.33  # by which the ratio is below that of independent values in 1 % of cases
SHARED = 0.35  # ... or changes by less than this share of what lengths of steps change by
COMMON = 0.8  # correlation of lengths of steps in one job; 0.7 may be chance in a dozen steps
UNFINISHED = 1  # steps that only one of two components shows


def together(
    connections: Connections, parts: Sequence[Part], servers: Codes, *, unknown: bool = False
) -> Codes:
    """Label parts that share a server and take their steps together.

    If the servers are ``unknown``, steps alone show it.
    """
    src, dst = [], []
    homes = [set(servers[part.component.endpoints].tolist()) for part in parts]
    steppings = [whole_steps(part) for part in parts]
    for i, one in enumerate(parts):
        for j, other in enumerate(parts[:i]):
            shared = bool(homes[i] & homes[j])
            if (shared or unknown) and (
                in_step(steppings[i], steppings[j])
                or (shared and are_twins(connections, one.component, other.component, servers))
            ):
                src += [i, j]
                dst += [j, i]
    return components(len(parts), np.array(src, np.int32), np.array(dst, np.int32))


def whole_steps(part: Part) -> Stepping:
    """The steps of ``part`` with the times of all its classes.

    Parts of one job may have references of different kinds, such as gradients and activations.
    """
    start = np.full(part.stepping.count, np.iinfo(np.int64).max)
    end = np.full(part.stepping.count, np.iinfo(np.int64).min)
    for one, step in zip(part.component.classes, part.stepping.step_of, strict=True):
        begins, ends = extents(one.traffic, step, part.stepping.count)
        start, end = np.minimum(start, begins), np.maximum(end, ends)
    return replace(part.stepping, start_ns=start, end_ns=end)


def in_step(one: Stepping, other: Stepping) -> bool:
    """Whether the begins of steps, or their ends, keep their distance.

    Replicas whose sequences differ in length begin a step together and end it apart. One step
    may count in one part only: it was never finished, or lost records cut it in two.
    """
    if one.count < other.count:
        one, other = other, one
    if one.count > other.count + UNFINISHED:
        return False
    lengths = np.diff(other.end_ns)
    moments = ((one.end_ns, other.end_ns), (one.start_ns, other.start_ns))
    distances = [(_between(ours, theirs), theirs) for ours, theirs in moments]
    return any(
        _keep_distance(between, lengths) and not _drift_apart(between, np.diff(theirs))
        for between, theirs in distances
    )


def _between(ours: Ints, theirs: Ints) -> Floats:
    """Distances of the steps ``theirs`` from ``ours`` [ns], without one of ours if it is more.

    The one is left out without which the distances are steady. Where steps are equally long, both
    the first and the last are; then the nearer steps belong together.
    """
    if ours.size == theirs.size:
        return (ours - theirs).astype(np.float64)
    without = np.array([np.delete(ours, left_out) - theirs for left_out in range(ours.size)])
    usual = np.median(without, axis=1)
    varies = np.abs(without - usual[:, None]).mean(axis=1)
    steady = varies <= varies.min() + TOGETHER * float(np.median(np.diff(theirs)))
    best = int(np.argmin(np.where(steady, np.abs(usual), np.inf)))
    return np.asarray(without[best], np.float64)


def _keep_distance(between: Floats, lengths: Ints) -> bool:
    """Whether ``between`` [ns], one a step, stays the same; ``lengths`` are those of steps.

    It may also vary, if it returns to its mean in every step: what one step adds, the next one
    takes away. The times of jobs that do not wait for each other drift apart instead. In a few
    steps, any drift may be chance; then the parts must also begin, or end, steps at the same time.
    If one replica becomes slow, the distance changes once, and all steps become longer by far more.
    """
    period, varies = float(np.median(lengths)), float(np.std(lengths))
    allowed = max(TOGETHER * period, BOUND * min(varies, period / 10))
    away = float(np.median(np.abs(between - np.median(between))))
    count = between.size
    drift = np.polyfit(np.arange(count), between, 1)[0] if count > 3 else 0.0
    apart = float(np.median(np.abs(between)))
    near, few = apart < period, count < MANY and apart < allowed
    most = allowed if few else max(DRIFT * period, allowed / count)
    changes = float(np.abs(np.diff(between)).mean()) if count > 1 else 0.0
    longer = float(np.abs(lengths - period).mean())
    steady = away < allowed and (abs(drift) < most or changes < SHARED * longer)
    loose = max(away, abs(drift) * count) < QUARTER * period
    return near and (steady or (loose and _returns(between)))


def _returns(values: Floats) -> bool:
    """Whether successive values are independent."""
    return values.size >= MANY and _ratio(values) > INDEPENDENT


def _drift_apart(between: Floats, lengths: Ints) -> bool:
    """Whether what steps add to the distances adds up, and their ``lengths`` are not alike."""
    count = between.size
    if count < MANY:
        return False
    deviation = 2 * float(np.sqrt((count - 2) / (count**2 - 1)))
    adds_up = _ratio(between) < 2 - SIGMAS * deviation
    return adds_up and not _have_in_common(lengths, lengths + np.diff(between))


def _ratio(values: Floats) -> float:
    """The ratio of J. von Neumann (1941): 2 for independent values, near 0 for a sum of them.

    Values that do not differ are as good as independent.
    """
    varies = float(np.var(values))
    return float(np.mean(np.diff(values) ** 2)) / varies if varies > 0 else 2.0


def _have_in_common(one: Ints, other: Floats) -> bool:
    """Whether steps of one component are long when those of the other are."""
    deviations = [each - each.mean() for each in (one, other)]
    size = float(np.sqrt(np.prod([np.sum(each**2) for each in deviations])))
    return float(np.sum(deviations[0] * deviations[1])) >= COMMON * size


def are_twins(connections: Connections, one: Component, other: Component, servers: Codes) -> bool:
    """Whether two components are twins."""
    shared = np.intersect1d(servers[one.endpoints], servers[other.endpoints])
    if shared.size == 0 or len(one.classes) != len(other.classes):
        return False
    for ours, theirs in zip(one.classes, other.classes, strict=True):
        records = len(ours.traffic), len(theirs.traffic)
        for (a, b), most in (((ours.bytes, theirs.bytes), ALIKE), (records, RECORDS)):
            if abs(a - b) > most * max(a, b):
                return False
    starts = [_starts(connections, part, servers, shared) for part in (one, other)]
    return min(begun.size for begun in starts) >= TELLING and _at_once(starts[0], starts[1])


def _starts(connections: Connections, one: Component, servers: Codes, shared: Codes) -> Ints:
    """Starts [ns] of what one endpoint on a ``shared`` server sends in the largest class."""
    traffic, src = one.classes[0].traffic, connections.src
    senders = src[connections.of_row[traffic.row]]
    near = senders[np.isin(servers[senders], shared)]
    return traffic.start_ns[senders == near[0]] if near.size else np.empty(0, np.int64)


def _at_once(ours: Ints, theirs: Ints) -> bool:
    """Whether ``ours`` lie much closer to ``theirs`` than they do after any shift in time."""
    gap_ns = float(np.median(np.diff(ours)))
    away = _to_nearest(ours, theirs)
    shifted = [_to_nearest(ours + round(share * gap_ns), theirs) for share in SHIFTS]
    return away <= SMALL * min(shifted)


def _to_nearest(ours: Ints, theirs: Ints) -> float:
    """Median distance of ``ours`` to the nearest of ``theirs`` [ns]."""
    after = np.searchsorted(theirs, ours).clip(1, theirs.size - 1)
    away = np.minimum(np.abs(ours - theirs[after - 1]), np.abs(theirs[after] - ours))
    return float(np.median(away))
