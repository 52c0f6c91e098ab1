"""The period of a job whose records are longer than a step.

An exporter's timers end such records, not the job. Some of them happen to end in a silence of their
connection. What it has sent until then is a multiple of what it sends from one silence to the next:
of a step, or of one message of a pipeline. Connections of equal volume have the same multiples. The
largest volume that explains the positions of all silences (bytes since the first record) counts
their steps, and the times of the silences say how long the steps took.

Five things keep other regularities out:

- chance: positions agree with a volume to 4 %, so each of them does so by chance with a probability
  of 8 %, and as many volumes are tried as differ by that;
- messages: every class of connections moves as much in each step. So none may be ahead of its share
  of the steps by much more than what it moves in one, whatever its own records show. Gradients that
  move once in eight messages are ahead by up to eight;
- several steps: some class is ahead of its share by half a step's volume at least, as traffic does
  not move evenly. Where none is, the parts may be several steps;
- sizes of messages: a typical record is as long as a step at least, or it was not ended by a timer,
  and silences are few steps apart, as large numbers have a common divisor sooner;
- single connections: only equal positions of several connections count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log10

import numpy as np

from llmprism.io.clock import clock_tick_ns
from llmprism.io.flows import FlowTable
from llmprism.methods.prism.parameters import EQUAL, FEWEST
from llmprism.methods.prism.records.connections import Connections, carry_within
from llmprism.numerics.arrays import Codes, Floats, Ints, quantile_by_weight
from prism_common.compiled import compiled

TOLERANCE = 0.04  # of the volume, by which positions differ from its multiples
OUTLIERS = 0.05  # share of positions that differ by more
CHANCE = 1e-4  # probability that positions agree with some volume by chance
MOST = 400  # steps in the recording
SILENCES = 512  # the longest of a class
DISTINCT = 5  # numbers of steps after which records end, at least
FEW = 8  # steps from one silence to the next, usually
UNEVEN = (0.45, 1.5)  # periods' volumes that a class is ahead of its share, at least and at most
TICKS = 10  # of the clock that a period has at least
SEVERAL = 1.5  # times the shortest period: one that may be that of several steps
SHORT, NEAR = 0.25, 0.05  # share of all steps that the faster ones have; steps as long as others
BUSY = 0.01  # share of the busiest connection's bytes from which a connection is looked at
SHOWN = 32  # connections of a class that are looked at


@dataclass(frozen=True)
class Sent:
    """What one connection has sent at the end of each of its records.

    Attributes
    ----------
    lasts_ns : length of each record [ns].
    end_ns : last packet of each record [ns].
    rest_ns : silence after each record but the last [ns].
    bytes : sent until the end of each record.
    """

    lasts_ns: Ints
    end_ns: Ints
    rest_ns: Ints
    bytes: Floats


def sent_by_classes(
    flows: FlowTable, connections: Connections, endpoints: Codes
) -> list[list[Sent]]:
    """What connections between ``endpoints`` send, in classes of equal volume, smallest first.

    Some connections of each class are enough, as all of them move the same.
    """
    own = np.flatnonzero(carry_within(connections, endpoints))
    total = connections.total_bytes[own]
    own = own[total >= BUSY * total.max(initial=0)]
    own = own[np.argsort(connections.total_bytes[own], kind="stable")]
    total = connections.total_bytes[own].astype(np.float64)
    classes: list[list[int]] = []
    least = 0.0
    for connection, volume in zip(own.tolist(), total.tolist(), strict=True):
        if not classes or volume > (1 + EQUAL) * least:
            classes.append([])
            least = volume
        classes[-1].append(connection)
    some = [one[:: -(-len(one) // SHOWN)] for one in classes]
    return [[_sent(flows, connections, connection) for connection in one] for one in some]


def _sent(flows: FlowTable, connections: Connections, connection: int) -> Sent:
    """What one ``connection`` has sent by the end of each of its records of data."""
    rows = connections.by.rows(connection)
    rows = rows[~connections.small[rows]]
    start, end = flows.start_ns[rows], flows.end_ns[rows]
    sent = np.cumsum(connections.size[rows], dtype=np.float64)
    return Sent(end - start, end, start[1:] - end[:-1], sent)


def typical_ns_of(classes: list[list[Sent]]) -> float:
    """Length of the record in which the median byte travels [ns]."""
    every = [sent for one in classes for sent in one]
    lasts = np.concatenate([sent.lasts_ns for sent in every]).astype(np.float64)
    size = np.concatenate([np.diff(sent.bytes, prepend=0.0) for sent in every])
    return quantile_by_weight(lasts, size, 0.5)


@dataclass(frozen=True)
class Interval:
    """Steps ``first`` to ``last`` (exclusive) took ``step_ns`` each, by one connection."""

    first: int
    last: int
    step_ns: float


@dataclass(frozen=True)
class Counted:
    """Steps that the records of one class of connections count.

    Attributes
    ----------
    intervals : how long steps took.
    points : steps and times [ns] of silences, shape (silences, 2), of all connections.
    silence_ns : median silence [ns].
    connections : number of connections in the class.
    """

    intervals: list[Interval]
    points: Floats
    silence_ns: float
    connections: int

    @cached_property
    def period_ns(self) -> float:
        """Length of the faster steps [ns]."""
        return faster_ns(self.intervals)


@dataclass(frozen=True)
class CountedPeriod:
    """The period [ns], and how many records of how many connections show it."""

    period_ns: int
    records: int
    connections: int


def counted_period(
    flows: FlowTable, connections: Connections, endpoints: Codes
) -> CountedPeriod | None:
    """The period of the job on ``endpoints``; None if its records do not show it."""
    classes = sent_by_classes(flows, connections, endpoints)
    if not classes:
        return None
    typical_ns = typical_ns_of(classes)
    shortest_ns = TICKS * clock_tick_ns(flows.start_ns, flows.end_ns)
    first = (next(_of_steps(one, classes, typical_ns), None) for one in classes)
    found = [one for one in first if one is not None and one.period_ns >= shortest_ns]
    if not found:
        return None
    least = min(one.period_ns for one in found)
    best = max((one for one in found if one.period_ns < SEVERAL * least), key=_silences)
    alike = [one for one in found if abs(one.period_ns - best.period_ns) < NEAR * best.period_ns]
    ends = sum(one.connections for one in alike)
    if ends == 1:
        return None
    intervals = [interval for one in alike for interval in one.intervals]
    return CountedPeriod(round(faster_ns(intervals)), sum(len(one.points) for one in alike), ends)


def _silences(counted: Counted) -> int:
    return len(counted.points)


def _of_steps(one: list[Sent], classes: list[list[Sent]], typical_ns: float) -> Iterator[Counted]:
    """Ways to count steps by the silences of one class that are not chance.

    The longest silences are between steps, and shorter ones within. So as many of the longest are
    tried as there are: one too many makes parts of steps. ``typical_ns`` is the length of a record.
    """
    position = np.concatenate([sent.bytes[:-1] for sent in one])
    rest = np.concatenate([sent.rest_ns for sent in one])
    longest = np.argsort(-rest, kind="stable")[:SILENCES]
    longest = longest[rest[longest] > 0]
    total = float(np.median([sent.bytes[-1] for sent in one]))
    last = 0.0
    for many in range(longest.size, FEWEST - 1, -1):
        volume = _volume(position[longest[:many]], total)
        if volume == 0 or abs(volume - last) < TOLERANCE * last:
            continue
        trials = log10(total / volume / TOLERANCE)
        if trials + (many - 1) * log10(2 * TOLERANCE) < log10(CHANCE):
            last = volume
            counted = _with_times(one, volume, int(rest[longest[many - 1]]))
            if counted is not None and _is_step(counted, classes, typical_ns):
                yield counted


def _volume(position: Floats, total: float) -> float:
    """The largest volume of which all of the positions are multiples; 0 if none is."""
    volume = _largest_volume(np.sort(position), total / FEWEST, total / MOST)
    if volume == 0:
        return 0.0
    steps = np.round(position / volume)
    return float((position * steps).sum() / (steps * steps).sum())


@compiled
def _largest_volume(position: Floats, most: float, least: float) -> float:
    """The best of the largest volumes that are next to each other and explain ``position``.

    Volumes from ``most`` down to ``least`` [bytes] are tried in steps of a quarter of what could
    move the largest position out of tolerance.
    """
    allowed = int(OUTLIERS * position.size)
    volume, first, best, best_error = most, 0.0, 0.0, np.inf
    while volume >= least:
        missed, error = 0, 0.0
        for at in position:
            steps = max(np.round(at / volume), 1.0)
            off = abs(at / volume - steps)
            if off >= TOLERANCE:
                missed += 1
                if missed > allowed:
                    break
            error += min(off, TOLERANCE) ** 2
        if missed <= allowed:
            first = volume if first == 0 else first
            if error < best_error:
                best, best_error = volume, error
        elif first > 0:
            break
        volume *= 1 - TOLERANCE / 4 * volume / position[-1]
    return best


def _with_times(one: list[Sent], volume: float, silence_ns: int) -> Counted | None:
    """Times of the steps that silences of ``silence_ns`` or longer count."""
    intervals: list[Interval] = []
    points, rests = [], []
    for sent in one:
        steps = np.round(sent.bytes / volume)
        rest = np.append(sent.rest_ns, np.iinfo(np.int64).max)
        near = np.abs(sent.bytes / volume - steps) < TOLERANCE
        at = np.flatnonzero((rest >= silence_ns) & near & (steps > 0))
        rests.append(rest[at[at < sent.rest_ns.size]])
        points.append(np.column_stack((steps[at], sent.end_ns[at])))
        for a, b in zip(at[:-1].tolist(), at[1:].tolist(), strict=True):
            many = int(steps[b] - steps[a])
            if many > 0:
                took = float(sent.end_ns[b] - sent.end_ns[a])
                intervals.append(Interval(int(steps[a]), int(steps[b]), took / many))
    many_apart = np.array([interval.last - interval.first for interval in intervals])
    if len({interval.last for interval in intervals}) < DISTINCT or np.median(many_apart) > FEW:
        return None
    return Counted(
        intervals, np.concatenate(points), float(np.median(np.concatenate(rests))), len(one)
    )


def _is_step(counted: Counted, classes: list[list[Sent]], typical_ns: float) -> bool:
    """Whether every class moves about as much in each of the parts, but not evenly."""
    if not counted.silence_ns < counted.period_ns <= typical_ns:
        return False
    steps = np.unique(counted.points[:, 0])
    times = np.array([
        np.median(counted.points[counted.points[:, 0] == step, 1]) for step in steps
    ])  # fmt: skip
    times = np.maximum.accumulate(times)
    ahead = max((_ahead(one, steps, times) for one in classes), default=0.0)
    return UNEVEN[0] <= ahead <= UNEVEN[1]


def _ahead(one: list[Sent], steps: Floats, times_ns: Floats) -> float:
    """How far connections of a class are ahead of their share of the steps, less how far behind.

    In volumes of a step. ``steps`` were counted at ``times_ns``. 0 if too few records end then.
    """
    both = []
    for sent in one:
        within = (sent.end_ns >= times_ns[0]) & (sent.end_ns <= times_ns[-1])
        if within.sum() >= 2:
            both.append((np.interp(sent.end_ns[within], times_ns, steps), sent.bytes[within]))
    if sum(passed.size for passed, _ in both) <= FEWEST:
        return 0.0
    together = sum(float(((x - x.mean()) * (y - y.mean())).sum()) for x, y in both)
    varies = sum(float(((x - x.mean()) ** 2).sum()) for x, _ in both)
    if together <= 0:
        return 0.0
    volume = together / varies
    return max(float(np.ptp(moved / volume - passed)) for passed, moved in both)


def faster_ns(intervals: Sequence[Interval]) -> float:
    """Length of the faster steps [ns]: the shortest one that a good part of all steps has.

    A few intervals are too short or too long: acknowledgements join records to the next step. Some
    are mixed: they hold others that are faster or slower.
    """
    first, last, took = np.array([(one.first, one.last, one.step_ns) for one in intervals]).T
    many = last - first
    holds = (first[:, None] <= first) & (last <= last[:, None])
    holds &= (many < many[:, None]) & (many >= FEWEST)
    mixed = (holds & (np.abs(took - took[:, None]) > NEAR * took[:, None])).any(axis=1)
    took, many = took[~mixed], many[~mixed]
    alike = np.abs(took - took[:, None]) < NEAR * took[:, None]
    share = alike @ many / many.sum()
    usual = share >= min(SHORT, share.max())
    least = took[usual].min()
    best = np.lexsort((took, -share * (np.abs(took - least) < NEAR * least)))[0]
    return quantile_by_weight(took[alike[best]], many[alike[best]], 0.5)
