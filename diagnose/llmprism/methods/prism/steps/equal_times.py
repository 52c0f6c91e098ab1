"""Steps without a longer silence between them: as many bytes move in as much time.

Ranks that gather sharded parameters send all the time, layer by layer. The update between two
steps may take less time than a layer, so that no silence shows where a step ends. But every step
moves the same messages in the same order. So the time in which the bytes of one step move is the
same wherever counting begins, in the middle of a step as well. The time for any other number of
bytes depends on the place, since forward and backward passes move bytes at different rates. The
bytes of a step are those whose time varies least, compared with fewer bytes. Where steps last
unequally, records still begin again after the bytes of a step
(:mod:`~llmprism.methods.prism.steps.repeated_bytes`).

That says how long a step is, not where it begins: see
:mod:`~llmprism.methods.prism.cycles.counted_steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.methods.prism.classes.classes import TrafficClass
from llmprism.methods.prism.cycles.counted_steps import begun_at, counted_steps, hops_of
from llmprism.methods.prism.cycles.cycles import Division, Traffic
from llmprism.methods.prism.cycles.parts import regularity
from llmprism.methods.prism.parameters import EQUAL, HALF, QUARTER, SMALL
from llmprism.methods.prism.steps.repeated_bytes import RepeatedBytes
from llmprism.numerics.arrays import Codes, Floats, Ints
from prism_common.early import INTS

REPEATED = 4  # steps that show that they repeat
MOST_STEPS = 1000  # up to which 1,400 numbers of bytes are tried
FINE = 1.004  # ratio of one number of bytes that is tried to the next
PLACES = 512  # where counting begins
SHORTER = (0.3, 0.8)  # of the bytes of a step: numbers that are compared with it
CLEAR = 2.2  # ratio of the variation of those to that of a step
ABOUT = 1.5  # ratio of two variations that may be the same: CLEAR is the ratio of different ones
LONG = 0.02  # of a step: messages that may be bridged records
SEVERAL = 5  # silences in a step
MOST = (10.0, 90.0)  # percentiles: most of the places or steps


@dataclass(frozen=True)
class _Line:
    """When the bytes of a class move: bytes before each record, and its start from the first [ns].

    ``total`` is the number of all bytes.
    """

    before: Floats
    start_ns: Floats
    total: float

    def variation_ns(self, size: float) -> float:
        """How much the time to move ``size`` bytes differs with the place: deciles' distance."""
        begins = np.linspace(0.0, self.before[-1] - size, PLACES)
        times = [np.interp(at, self.before, self.start_ns) for at in (begins, begins + size)]
        low, high = np.percentile(times[1] - times[0], MOST)
        return float(high - low)


@dataclass(frozen=True)
class EqualTimes:
    """What takes the same time everywhere.

    Attributes
    ----------
    step_of : step of each record of the largest class, if it is known where steps begin.
    clearest : how often the bytes whose time varies least move in all; 0 if there are none.
    line : when bytes move, unless there are too few.
    """

    step_of: Codes | None
    clearest: float
    line: _Line | None = None

    def are_several(self, parts: Division) -> bool:
        """Whether each of these steps is several ``parts``, which are the steps then.

        Parts end with the longest silences, be they longer by ever so little, and their time varies
        about as little. That of micro-batches varies by an update more than that of steps.
        """
        if self.step_of is None or self.line is None:
            return False
        count = int(self.step_of.max()) + 1
        if len(parts) % count:
            return False
        size = float(np.median(parts.volumes))
        own_ns, step_ns = (self.line.variation_ns(one) for one in (size, self.line.total / count))
        return own_ns <= ABOUT * step_ns

    def denies(self, count: int) -> bool:
        """Whether so many parts are no steps: larger ones take the same time, not of several."""
        several = count / self.clearest if self.clearest else 1.0
        return several > 1 + QUARTER and abs(several - np.rint(several)) > SMALL


def equal_times(
    classes: Sequence[TrafficClass], repeats: RepeatedBytes, recorded_ns: tuple[int, int] | None
) -> EqualTimes:
    """Find the steps of the first and largest of the ``classes`` by equal times of equal bytes.

    Every other class that moves a good part of all bytes moves as much in each step as well.
    ``repeats``: after how many bytes the records of the first class begin again.
    ``recorded_ns``: when the records of all traffic begin and end [ns], if that is known.
    """
    traffic = classes[0].traffic
    most = _most_steps(traffic)
    if most < REPEATED:
        return EqualTimes(None, 0.0)
    line = _line_of(traffic)
    sizes = _bytes_of_steps(line, most)
    if repeats.shows():
        sizes[repeats.least() * line.total] = CLEAR
    step_of = _placed(traffic, line, list(sizes), recorded_ns)
    if step_of is not None:
        begins = traffic.start_ns[first_of_each(step_of)[1:]]
        large = SMALL * sum(one.bytes for one in classes)
        if not all(
            _moves_in_each(one.traffic, begins) for one in classes[1:] if one.bytes >= large
        ):
            step_of = None
    clearest = line.total / max(sizes, key=lambda size: sizes[size]) if sizes else 0.0
    return EqualTimes(step_of, clearest, line)


def _most_steps(traffic: Traffic) -> int:
    """The most steps there can be: each has several silences, and is longer than any of them."""
    rest_ns = traffic.rests_ns()
    lasting_ns = int(traffic.end_ns.max() - traffic.start_ns[0])
    by_silences = int(np.count_nonzero(rest_ns > 0)) // SEVERAL
    by_length = lasting_ns / max(int(rest_ns.max(initial=0)), 1)
    return min(MOST_STEPS, by_silences, int(by_length))


def _line_of(traffic: Traffic) -> _Line:
    moved = np.cumsum(traffic.size, dtype=np.float64)
    start_ns = (traffic.start_ns - traffic.start_ns[0]).astype(np.float64)
    return _Line(np.concatenate(([0.0], moved[:-1])), start_ns, float(moved[-1]))


def lasts_evenly(begins_ns: Ints) -> bool:
    """Whether most steps or parts that begin at ``begins_ns`` last as long."""
    low, median, high = np.percentile(np.diff(begins_ns), (MOST[0], 50.0, MOST[1]))
    return bool(high - low <= QUARTER * median)


def first_of_each(step_of: Codes) -> Ints:
    """Index of the first record of each step; negative steps are none."""
    steps, first = np.unique(step_of, return_index=True)
    return first[steps >= 0]


def computes(traffic: Traffic, begins_ns: Ints) -> bool:
    """Whether ranks compute between the messages of a step: several silences, none very long.

    ``begins_ns``: of the steps. Buckets of an all-reduce move equal bytes in equal times as well,
    one after the other.
    """
    rest_ns = traffic.rests_ns()
    often = np.count_nonzero(rest_ns > 0) >= SEVERAL * begins_ns.size
    return bool(often and rest_ns.max() < np.median(np.diff(begins_ns)))


def _moves_in_each(traffic: Traffic, begins: Ints) -> bool:
    """Whether about as many bytes move in each step; ``begins`` [ns] are those but the first."""
    step = np.searchsorted(begins, traffic.start_ns, side="right")
    volumes = np.bincount(step, traffic.size, begins.size + 1).astype(np.float64)
    return bool(np.isfinite(regularity(volumes)[0]))


def _placed(
    traffic: Traffic, line: _Line, sizes: Sequence[float], recorded_ns: tuple[int, int] | None
) -> Codes | None:
    """Step of each record for that of the ``sizes`` of a step that is the least, and fits."""
    best: Codes | None = None
    hops = hops_of(traffic)
    for step in sizes:
        step_of = counted_steps(traffic, hops, step / line.total, recorded_ns)
        if step_of is None:
            cuts = _bridged(line, step)
            step_of = np.searchsorted(cuts, np.arange(len(traffic)), side="right").astype(np.int32)
        begins = traffic.start_ns[first_of_each(step_of)]
        if begins.size >= REPEATED and computes(traffic, begins) and lasts_evenly(begins):
            best = step_of if best is None or step_of.max() > best.max() else best
    return best


def _bytes_of_steps(line: _Line, most: int) -> dict[float, float]:
    """Numbers of bytes that take about the same time everywhere, and how clear that is.

    They may be those of a layer, of a step, of two steps, but move at most ``most`` times in all.
    """
    tried = 1 + int(np.log(most / REPEATED) / np.log(FINE))
    sizes = np.geomspace(line.total / most, line.total / REPEATED, tried)
    sizes = sizes[sizes < line.before[-1]]
    variation = np.array([line.variation_ns(size) for size in sizes.tolist()])
    near = int(np.log1p(EQUAL) / np.log(FINE))
    found: dict[float, float] = {}
    for i in range(near, sizes.size):
        low, high = np.searchsorted(sizes, np.array(SHORTER) * sizes[i])
        if high - low < near or variation[i] > variation[i - near : i + near + 1].min():
            continue
        clear = float(np.median(variation[low:high])) / max(variation[i], 1.0)
        if clear >= CLEAR:
            found[float(sizes[i])] = clear
    return found


def _bridged(line: _Line, step: float) -> Ints:
    """The records that begin the steps but the first, all as far from where a step begins.

    Where the exporter bridges the silence between two steps, a record holds the end of one and the
    begin of the next. Then all steps are taken to begin as much later or earlier.
    """
    count = int(np.rint(line.total / step)) - 1
    whole = abs(line.total / step - count - 1) <= QUARTER
    message = float(np.median(np.diff(line.before)))
    if not whole or message < LONG * step:
        return INTS
    step = line.total / (count + 1)
    begins = line.before[np.abs(line.before - step) <= QUARTER * step] - step
    wanted = np.arange(1, count + 1) * step + np.append(0.0, begins)[:, None]
    tried = [begun_at(line.before, one, message) for one in wanted]
    at, exact = max(tried, key=lambda one: one[1])
    return np.unique(at[at > 0]) if exact >= HALF else INTS
