"""Steps that are longer at regular intervals: checkpoints and evaluations, which are no fault.

Every k-th step of a job is longer then, in a stretch of slow steps as well as around it. So what
such a step takes longer around the stretch is no cost of the stretch. It may overlap with what
makes the stretch slow, so there it need not be longer by as much than the steps beside it.
"""

from __future__ import annotations

import numpy as np

from llmprism.numerics.arrays import Bools, Floats, Ints
from llmprism.numerics.missing import deviation

LONGER = 0.05  # of a step, at least: less changes no cost by much
DEVIATIONS = 5.0  # of the spread of a step
LEAST = 2  # long steps that show that they recur
MANY = 3  # ... whatever other steps are long as well
MOSTLY = 0.8  # of the long steps: so many recur at one interval
SEEN = 0.25  # of what it takes longer elsewhere: then it recurs in the stretch as well
RAREST = 64  # steps from one to the next at most


def recurring_ns(duration_ns: Floats, first: int, last: int) -> Floats:
    """What each step takes longer because it recurs [ns].

    Steps around the stretch show the interval, but for those beside it, which may belong to it.
    Where they are too few, so do those in the stretch that are long beside the others in it, if
    they go on at the interval of one before or after. That may be one beside it.
    """
    extra = np.zeros(duration_ns.size)
    outside = np.isfinite(duration_ns)
    outside[first : last + 1] = False
    outside[:1] = False  # a job never begins with such a step
    if outside.sum() <= LEAST:
        return extra
    level = float(np.median(duration_ns[outside]))
    every_long = long = _long(duration_ns, outside)
    if first < duration_ns.size:
        for edge in (first - 1, last + 1):
            outside[max(0, edge) : edge + 1] = False
    long = long & outside
    numbers = _recur(np.flatnonzero(long), outside)
    if not numbers.size:
        long, others = every_long, np.isfinite(duration_ns) & ~outside
        others[:1] = False
        numbers = _recur(np.flatnonzero(long | _long(duration_ns, others)), outside | others)
    if not long[numbers].any():
        return extra
    inside = duration_ns[first : last + 1]
    extra[numbers] = float(np.median(duration_ns[numbers[long[numbers]]])) - level
    more = inside - float(np.nanmedian(inside)) if np.isfinite(inside).any() else inside
    more, within = np.nan_to_num(more), extra[first : last + 1]
    extra[first : last + 1] = np.where(more > SEEN * within, within, np.clip(more, 0.0, within))
    return extra


def _long(duration_ns: Floats, among: Bools) -> Bools:
    """Which of some steps are longer than the others of them."""
    if not among.any():
        return among
    level, spread = float(np.median(duration_ns[among])), deviation(duration_ns[among])
    long: Bools = among & (duration_ns > level + max(DEVIATIONS * spread, LONGER * level))
    return long


def without_recurring_ns(duration_ns: Floats) -> Floats:
    """Lengths of all steps without what they take longer because they recur [ns]."""
    return duration_ns - recurring_ns(duration_ns, duration_ns.size, duration_ns.size)


def _recur(long: Ints, outside: Bools) -> Ints:
    """All steps at the shortest interval at which most of the ``long`` steps recur; maybe none."""
    if long.size < LEAST:
        return long[:0]
    steps = np.arange(outside.size)
    for every in range(2, min(RAREST, outside.size // LEAST) + 1):
        seen = np.bincount(steps[outside] % every, minlength=every)
        times = np.bincount(long % every, minlength=every)
        regular = (times == seen) & (times >= LEAST)
        most = times[regular].sum() >= MOSTLY * long.size or (times >= MANY)[regular].any()
        if 0 < regular.sum() <= every // 2 and most:
            return np.flatnonzero(regular[steps % every])
    return long[:0]
