"""What steps take when nothing is wrong: the fast common level, and periodic longer steps.

Most steps of a healthy job take the same time. Where a fault slows most of them, the healthy ones
are a smaller group that is faster. So the *normal* length is that of the fastest group which is no
chance: enough steps within the noise of each other, and apart from the median by more than that.

A *habit* is what a program does after every k-th step: it saves, it evaluates, it takes turns with
another job. A place in a period of k steps is a habit if all steps at it are longer by about the
same, from the first to the last of the recording.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from llmprism.methods.prism.graph.durations import StepGraph
from llmprism.methods.prism.graph.rendezvous import Rendezvous
from llmprism.methods.prism.parameters import (
    FEWEST,
    FEWEST_HABITS,
    HABIT_DEVIATIONS,
    HEALTHY_DEVIATIONS,
    HEALTHY_SHARE,
    MOSTLY,
    NOISE_FLOOR,
    QUARTER,
    SINGLE,
    VARIES,
)
from llmprism.methods.prism.windows import log_density
from llmprism.numerics.arrays import Bools, Floats, Ints, grouped
from llmprism.numerics.edges import Usual, add_up, take_waiting_out
from llmprism.numerics.missing import nanmedian, spread


@dataclass(frozen=True)
class Normal:
    """What the steps of a job are beside its normal ones.

    Attributes
    ----------
    longer_ns : by what each step is longer than a normal one of its kind, NaN where unknown.
    noise_ns : standard deviation of that.
    healthy : steps that are not longer, shape (steps,).
    """

    longer_ns: Floats
    noise_ns: float
    healthy: Bools


def normal_of(length_ns: Floats, kind: Ints, tick_ns: float) -> Normal:
    """Compare steps with the normal ones of the same ``kind``; all have shape (steps,)."""
    known = length_ns[np.isfinite(length_ns)]
    usual_ns = float(np.median(known)) if known.size else 0.0
    least_ns = max(NOISE_FLOOR * usual_ns, tick_ns, 1.0)
    noise_ns = max(float(np.nan_to_num(spread(length_ns[None])[0])), least_ns)
    longer = length_ns.copy()
    for one in np.unique(kind).tolist():
        longer[kind == one] -= fast_level(length_ns[kind == one], noise_ns)
    noise_ns = max(float(np.nan_to_num(spread(longer[None])[0])), least_ns)
    healthy = np.abs(np.nan_to_num(longer, nan=np.inf)) <= HEALTHY_DEVIATIONS * noise_ns
    return Normal(longer, noise_ns, healthy if healthy.any() else np.ones_like(healthy))


def fast_level(values: Floats, noise: float) -> float:
    """The level of the fastest group of ``values``, or their median if none stands apart.

    >>> fast_level(np.array([10.0, 30.0, 30.1, 10.1, 30.0, 29.9, 10.0, 30.2]), 0.1)
    10.0
    >>> fast_level(np.array([10.0, 10.2, 9.9, 10.1, 10.0, 30.0]), 0.1)
    10.05
    """
    known = np.sort(values[np.isfinite(values)])
    if not known.size:
        return float("nan")
    middle = float(np.median(known))
    least = max(FEWEST_HABITS, int(np.ceil(HEALTHY_SHARE * known.size)))
    within = HEALTHY_DEVIATIONS * noise
    near = np.searchsorted(known, known + within, side="right") - np.arange(known.size)
    groups = np.flatnonzero(near >= least)
    if known.size < 2 * least or not groups.size:
        return middle
    first = int(groups[0])
    low = float(np.median(known[first : first + int(near[first])]))
    return low if middle - low > within else middle


def periodic_steps(longer_ns: Floats, noise_ns: float) -> Ints:
    """A number for the habit of each step; 0 for steps without one, shape (steps,).

    They are found one by one.

    >>> periodic_steps(np.array([0.0, 9, 0, 0, 9, 0, 0, 9, 0, 0, 9, 0]), 1.0).tolist()
    [0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0]
    """
    found = np.zeros(longer_ns.size, np.int64)
    left = longer_ns
    for _ in range(FEWEST):  # saves, evaluations, and one more
        label = _habit(left, noise_ns)
        if not label.any():
            break
        number = np.unique(label[label > 0], return_inverse=True)[1] + found.max() + 1
        found[label > 0] = np.where(found[label > 0] > 0, found[label > 0], number)
        left = np.where(found > 0, np.nan, longer_ns)
    return found


def _habit(longer_ns: Floats, noise_ns: float) -> Ints:
    """The likeliest habit: the places in its period, from 1."""
    best, found = 0.0, np.zeros(longer_ns.size, np.int64)
    known = np.flatnonzero(np.isfinite(longer_ns))
    long = known[longer_ns[known] >= HABIT_DEVIATIONS * noise_ns]
    for period in range(2, found.size // FEWEST_HABITS + 1):
        often, count = (np.bincount(one % period, minlength=period) for one in (long, known))
        places = np.flatnonzero((2 * often >= count) & (often > 0))
        gain, label = _gain_at(longer_ns, noise_ns, period, places) if places.size else (0.0, found)
        if gain > best:
            best, found = gain, label
    return found


def _gain_at(longer_ns: Floats, noise_ns: float, period: int, places: Ints) -> tuple[float, Ints]:
    """Log likelihood ratio of those places of a period whose steps are long, and their numbers."""
    steps = longer_ns.size
    beside_ns = _beside(longer_ns, period)
    gain, label = -float(np.log(steps)), np.zeros(steps, np.int64)
    place = np.arange(steps) % period
    for one in places.tolist():
        at = np.flatnonzero((place == one) & np.isfinite(longer_ns))
        more = _gain_of_habit(longer_ns[at], beside_ns[at], noise_ns, steps)
        if more > 0:
            gain += more
            label[place == one] = one + 1
    return gain, label


def _beside(longer_ns: Floats, period: int) -> Floats:
    """The longer of the shortest steps within a period before and after each step, (steps,)."""
    around = np.pad(np.nan_to_num(longer_ns, nan=np.inf), period, constant_values=np.inf)
    least = sliding_window_view(around, period).min(axis=1)
    both = np.stack((least[: longer_ns.size], least[period + 1 :]))
    beside: Floats = np.where(np.isfinite(both), both, -np.inf).max(axis=0)
    return beside


def _gain_of_habit(longer_ns: Floats, beside_ns: Floats, noise_ns: float, steps: int) -> float:
    """Log likelihood ratio of one level at a place of a period; 0 if it is no habit.

    Steps around it are as long where a fault lasts.
    """
    if longer_ns.size < FEWEST_HABITS:
        return 0.0
    level = float(np.median(longer_ns))
    stands_out = longer_ns - np.maximum(beside_ns, 0.0) > level / 2
    if level < HABIT_DEVIATIONS * noise_ns or np.mean(stands_out) <= MOSTLY:
        return 0.0
    wide = float(np.hypot(noise_ns, VARIES * level))
    alike = log_density((longer_ns - level) / wide) - log_density(longer_ns / noise_ns)
    chance = float(np.log(steps)) + SINGLE + (longer_ns.size - 1) * float(np.log(wide / noise_ns))
    return float(alike.sum()) - chance


@dataclass(frozen=True)
class Table:
    """Excess of rows in steps.

    Attributes
    ----------
    excess : share of the normal duration, NaN where unknown, shape (rows, steps).
    normal_ns : normal duration of a row in a step, shape (rows,).
    error : standard deviation of the excess, shape (rows,).
    """

    excess: Floats
    normal_ns: Floats
    error: Floats


@dataclass(frozen=True)
class Reference:
    """Which steps show what is normal.

    Attributes
    ----------
    kind : of each step, 0 for the most frequent one, shape (steps,).
    healthy : steps that are believed to be normal, shape (steps,).
    """

    kind: Ints
    healthy: Bools

    def usual(self, values: Floats) -> Usual:
        """Normal value of each row in each step: the median over healthy steps of its kind."""
        kinds, kind = np.unique(self.kind, return_inverse=True)
        median = np.empty((len(values), kinds.size))
        for place in range(kinds.size):
            own = kind == place
            shown = own & self.healthy if (own & self.healthy).any() else own
            median[:, place] = nanmedian(values[:, shown], axis=1)
        return Usual(median, kind)

    def normal(self, values: Floats) -> Floats:
        """The same for every step, shape (rows, steps)."""
        usual = self.usual(values)
        return usual.median[:, usual.kind]


def table_of(
    durations: Floats, row: Ints, rows: int, reference: Reference, tick_ns: float
) -> Table:
    """The excess of each row: edges of one ``row`` are taken together."""
    usual = reference.usual(durations)
    longer, whole = np.zeros((2, rows, durations.shape[1]))
    edges = np.zeros(rows, np.int64)
    add_up(durations, (usual.median, usual.kind), row, (longer, whole, edges))
    normal_ns = whole.max(axis=1, initial=0.0)
    shown = whole > QUARTER * normal_ns[:, None]
    excess = np.where(shown, longer / np.where(whole > 0, whole, 1.0), np.nan)
    excess -= reference.normal(excess)
    rounding = np.sqrt(np.maximum(edges, 1)) * tick_ns / 2 / np.maximum(normal_ns, 1.0)
    return Table(excess, normal_ns, errors_of(excess, rounding))


def errors_of(excess: Floats, rounding: Floats) -> Floats:
    """Standard deviation of the excess of each row, none below what clocks make."""
    own = spread(excess)
    known = np.isfinite(own)
    pooled = float(np.median(own[known])) if known.any() else 1.0
    together = np.sqrt((np.nan_to_num(own, nan=pooled) ** 2 + pooled**2) / 2)
    errors: Floats = np.maximum(together, np.maximum(rounding, NOISE_FLOOR))
    return errors


def without_waiting(graph: StepGraph, usual: Usual, rendezvous: Rendezvous) -> Floats:
    """Computation of each participation without waiting for others of the same rendezvous [ns].

    Who waits takes longer than usual.
    """
    nodes, compute = graph.nodes, graph.compute.copy()
    by = grouped(rendezvous.of[nodes.operation], len(nodes.begin))
    times, normal = (compute, nodes.join), (usual.median, usual.kind)
    take_waiting_out((by.order, by.offsets), rendezvous.together_ns, times, normal)
    return compute
