"""Hops with one pace, as one entity of the fabric.

No hop of a ring (or of a pipelined tree) can run ahead of the chunks that reach it. In the fluid
limit all hops have the pace of the slowest one, and one entity over all their links is exact. A
switch observes more detail: on every hop a train of bursts, one per chunk. The fluid gives each
chunk a window of time, which is the same on all hops. In its window a hop sends its chunk at its
lowest burst rate there (:mod:`prism_sim.cluster.pace`), then waits for the next window. The windows
and the burst rates follow from the capacity of the links while the collective ran, so the bursts on
a link never exceed its capacity, also together with other traffic.

Records show which hop is slow only if they show the waits of the other hops. A train whose waits
are shorter than the telemetry's idle gap becomes one record. Then all hops of a collective look
alike: same begin, same end, same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_common.compiled import Bound, compiled, compiled_part
from prism_sim.cluster.fabric import CoupledOver, Fabric, Moved
from prism_sim.cluster.history import Spare
from prism_sim.cluster.network import Hop
from prism_sim.cluster.pace import take_log
from prism_sim.cluster.state import Array, Int32s, Int64s
from prism_sim.cluster.templates import HIDDEN
from prism_sim.cluster.wire import TRAIN

Floats = NDArray[np.float64]
_take_log = Bound(take_log)
SAME_NS = 1e-2
"""Times that differ by less are equal, up to rounding."""


class Course(NamedTuple):
    """Times and rates of one run of coupled hops.

    Attributes
    ----------
    start_ns, end_ns : of the fluid run.
    since_ns, pace : the pace [bytes/ns] from each of these times on, shape (rows,).
    burst : burst rate of each hop in these times [bytes/ns], shape (rows, hops).
    """

    start_ns: int
    end_ns: int
    since_ns: Floats
    pace: Floats
    burst: Floats

    def moved_to(self, alone_ns: Floats, done_ns: float) -> Floats:
        """Times at which the run was as far as ``alone_ns`` after its begin at an even pace [ns].

        ``done_ns`` is its duration at an even pace. Times before the begin stay the same.
        """
        times = np.append(self.since_ns, float(self.end_ns))
        moved = np.append(0.0, np.cumsum(self.pace * np.diff(times)))
        inside = np.interp(alone_ns / done_ns * moved[-1], moved, times)
        reached: Floats = np.where(alone_ns < 0, self.start_ns + alone_ns, inside)
        return reached

    def burst_at(self, times_ns: Floats) -> Floats:
        """The burst rate of each hop at its own times [bytes/ns], shape (hops, times)."""
        row = np.searchsorted(self.since_ns, times_ns, "right") - 1
        rate: Floats = self.burst[np.maximum(row, 0), np.arange(len(times_ns))[:, None]]
        return rate


@compiled
def mean_chunk_ns(course: Course, chunk_bytes: int) -> Floats:
    """Mean time that each hop sent for a chunk [ns], shape (hops,)."""
    if len(course.pace) == 1:
        only: Floats = chunk_bytes / course.burst[0]
        return only
    total, sent_ns = 0.0, np.zeros(course.burst.shape[1])
    for row in range(len(course.pace)):
        until_ns = course.since_ns[row + 1] if row + 1 < len(course.pace) else course.end_ns
        moved = course.pace[row] * (until_ns - course.since_ns[row])
        if moved > 0:
            total += moved
            sent_ns += moved * (chunk_bytes / course.burst[row])
    return sent_ns / total


@compiled
def first_rate(course: Course) -> Floats:
    """The burst rate of each hop at first [bytes/ns], shape (hops,)."""
    first: Floats = course.burst[np.argmax(course.pace > 0)]
    return first


class Early(NamedTuple):
    """The bursts that each hop began to send before the fluid began.

    ``bursts`` are sent from ``start_ns`` to ``end_ns``; ``left_bytes`` of the last one follow
    later.
    """

    bursts: Int64s
    start_ns: Floats
    end_ns: Floats
    left_bytes: Floats


NO_TIME = Spare(np.zeros(1, np.int64), np.zeros((0, 1)), np.zeros((0, 1)))
"""Free capacity in a time of length zero."""


class CoupledHops:
    """The hops of one collective, ready to run as one entity.

    Where transfers choose one of several paths, each hop chooses again for a run.

    Attributes
    ----------
    route : of each hop, shape (hops,).
    latency_ns : of each hop, shape (hops,).
    """

    def __init__(self, hops: Sequence[Hop], fabric: Fabric) -> None:
        self._fabric, templates = fabric, fabric.templates
        own = [templates.add(hop.links) if hop.template == HIDDEN else hop.template for hop in hops]
        self._hops = np.array(own, np.int32)
        self._present = np.array([templates.last_choice(hop) for hop in own], np.int32)
        self._first = self._present - templates.path_numbers(self._present) + 1
        self._chooses = any(templates.chooses(hop) for hop in own)
        self.route = np.array([hop.route for hop in hops], np.int32)
        self._by_route = np.argsort(self.route, kind="stable")
        self.latency_ns = np.array([hop.latency_ns for hop in hops], float)
        self._free: list[tuple[int, int]] = []
        self._template, self._bundle = self._registered()
        fabric.on_reroute.append(self._move)

    def _registered(self) -> tuple[int, int]:
        """A new template of the present hops, and its bundle."""
        templates = self._fabric.templates
        add = templates.add_coupled_choice if self._chooses else templates.add_coupled
        template = add(self._present.tolist())
        return template, templates.add_bundle([template])

    def _move(self, moved: Moved) -> None:
        """Use the present links of the hops' routes, unless templates are renewed in place."""
        if self._chooses or self._fabric.templates.follows(self._template):
            return
        if moved.keys() & set(self.route.tolist()):
            self._template, self._bundle = self._registered()

    def move(self, size_bytes: int, event: simpy.Event, over: CoupledOver, cap: float) -> None:
        """Send ``size_bytes`` over every hop; see :meth:`~.fabric.Fabric.move_coupled`."""
        if not self._chooses:
            self._fabric.move_coupled(self._bundle, size_bytes, event, over, cap)
            return
        template, bundle = place = self._free.pop() if self._free else self._registered()
        self._present = taken = self._fabric.choose_paths(self._hops, template)
        self._template = template

        def ended(start_ns: int, end_ns: int, log: int) -> int:
            self._fabric.leave_paths(taken)
            self._free.append(place)
            return over(start_ns, end_ns, log)

        self._fabric.move_coupled(bundle, size_bytes, event, ended, cap)

    def with_paths(self, trains: Array) -> Array:
        """``trains`` with the paths that the hops chose."""
        if self._chooses:
            order = self._by_route
            place = np.searchsorted(self.route[order], trains["route"])
            trains["path"] = np.where(self._hops != self._present, self._numbers, 0)[order][place]
        return trains

    @property
    def _numbers(self) -> Int32s:
        """Number of the path of each hop among those that it may choose, from 1."""
        return self._present - self._first + 1

    def __len__(self) -> int:
        return len(self.route)

    def free_rates(self) -> Floats:
        """Rate of each hop if the collective were alone on its links [bytes/ns]."""
        each = [self._fabric.templates.links_of(hop) for hop in self._present.tolist()]
        links = np.concatenate([links for links, _ in each])
        share = np.concatenate([share for _, share in each])
        _, at = np.unique(links, return_inverse=True)
        rate = self._fabric.capacities()[links] / np.bincount(at, share)[at]
        first = np.cumsum([0, *(len(own) for own, _ in each)])[:-1]
        return np.minimum.reduceat(rate, first)

    def spare_since(self, since_ns: int) -> Spare:
        """Free capacity of each hop's links from ``since_ns`` on; none within one instant."""
        if since_ns == self._fabric.env.now:
            return NO_TIME
        return self._fabric.spare(self._template)

    def course(self, start_ns: int, end_ns: int, log: int) -> Course:
        """Times and rates of the run from ``start_ns`` to ``end_ns``, from the fabric's ``log``."""
        return Course(start_ns, end_ns, *_take_log(self._fabric.net, log, len(self)))

    def trains(
        self, course: Course, period_ns: float, bursts: int, burst_bytes: int, delay_ns: Floats
    ) -> Array:
        """The trains of all hops, ``delay_ns`` after the fluid; see :func:`trains_of`."""
        zero_ns = np.full(len(self), course.start_ns + delay_ns)
        early = Early(np.zeros(len(self), np.int64), zero_ns, zero_ns, zero_ns)
        trains = trains_of(course, period_ns, bursts, burst_bytes, early, zero_ns, self.route)
        return self.with_paths(trains)

    def early_trains(self, early: Early, burst_bytes: int) -> Array:
        """The trains of hops that sent only ``early`` bursts."""
        hops = np.flatnonzero((early.bursts > 0) & (self.route != HIDDEN))
        trains = np.zeros(hops.size, TRAIN)
        lasts_ns = (early.end_ns - early.start_ns)[hops] / early.bursts[hops]
        for name, values in (
            ("route", self.route[hops]),
            ("start_ns", early.start_ns[hops]),
            ("burst_ns", lasts_ns),
            ("period_ns", lasts_ns),
            ("bursts", early.bursts[hops]),
        ):
            trains[name] = values
        trains["burst_bytes"] = burst_bytes
        return self.with_paths(trains)


@compiled
def trains_of(
    course: Course,
    period_ns: float,
    bursts: int,
    burst_bytes: int,
    early: Early,
    zero_ns: Floats,
    route: Int32s,
) -> Array:
    """The trains of all hops that a switch observes, in order of time on each hop.

    Parameters
    ----------
    period_ns : mean time from one burst to the next; at least that of the fluid.
    bursts, burst_bytes : of each hop.
    early : the bursts that hops sent before the fluid began.
    zero_ns : when each hop begins with the others, shape (hops,).
    """
    after_ns = course.since_ns - course.start_ns
    starts_ns = windows(after_ns, course.pace, float(course.end_ns - course.start_ns), bursts)
    trains = np.zeros(2 * len(route), TRAIN)
    needed = write_trains(
        after_ns, course.burst, starts_ns, period_ns, burst_bytes, early, zero_ns, route, trains
    )
    if needed > len(trains):
        trains = np.zeros(needed, TRAIN)
        write_trains(
            after_ns, course.burst, starts_ns, period_ns, burst_bytes, early, zero_ns, route, trains
        )
    return trains[:needed]


@compiled
def windows(since_ns: Floats, pace: Floats, end_ns: float, bursts: int) -> Floats:
    """Begin of each of ``bursts`` chunks in the fluid, and end of the last, shape (bursts + 1,).

    Times count from the begin of the collective.
    """
    rows = len(pace)
    total = 0.0
    for row in range(rows):
        until_ns = since_ns[row + 1] if row + 1 < rows else end_ns
        total += pace[row] * (until_ns - since_ns[row])
    starts_ns = np.empty(bursts + 1)
    row, moved = 0, 0.0
    for chunk in range(bursts):
        wanted = total * chunk / bursts
        while row + 1 < rows:
            after = moved + pace[row] * (since_ns[row + 1] - since_ns[row])
            if after > wanted:
                break
            row, moved = row + 1, after
        rest = max(wanted - moved, 0.0)
        starts_ns[chunk] = since_ns[row] + (rest / pace[row] if rest > 0.0 else 0.0)
    starts_ns[bursts] = end_ns
    return starts_ns


@compiled
def write_trains(
    since_ns: Floats,
    burst: Floats,
    starts_ns: Floats,
    period_ns: float,
    burst_bytes: int,
    early: Early,
    zero_ns: Floats,
    route: Int32s,
    trains: Array,
) -> int:
    """Fill ``trains`` (dtype TRAIN), hop by hop; return their number, even if not all fit.

    Bursts of a hop with one length and distance are one train. ``starts_ns`` are the windows of the
    fluid, stretched to a mean of ``period_ns``, from each hop's ``zero_ns``. Early bursts are a
    train of their own.
    """
    bursts, n = len(starts_ns) - 1, 0
    fluid_ns = starts_ns[bursts]
    stretch = max(1.0, bursts * period_ns / fluid_ns) if fluid_ns > 0.0 else 1.0
    for hop in range(len(route)):
        if route[hop] == HIDDEN:
            continue
        row, count = 0, 0
        train_ns = burst_ns = window_ns = 0.0
        chunk = early.bursts[hop]
        if chunk > 0:
            n += 1
            if n <= len(trains):
                end_ns = early.end_ns[hop]
                if early.left_bytes[hop] > 0.0:
                    lowest = _lowest(since_ns, burst, 0, hop, starts_ns[chunk])
                    rest_ns = min(early.left_bytes[hop] / lowest, starts_ns[chunk] * stretch)
                    end_ns = zero_ns[hop] + rest_ns
                length_ns = (end_ns - early.start_ns[hop]) / chunk
                _fill(trains[n - 1], route[hop], early.start_ns[hop], length_ns, length_ns, chunk)
        while chunk < bursts:
            start = starts_ns[chunk]
            while row + 1 < len(since_ns) and since_ns[row + 1] <= start + SAME_NS:
                row += 1
            own_window_ns = (starts_ns[chunk + 1] - start) * stretch
            lowest = _lowest(since_ns, burst, row, hop, starts_ns[chunk + 1])
            own_ns, at_ns = min(burst_bytes / lowest, own_window_ns), start * stretch
            late_ns = abs(at_ns - (train_ns + count * window_ns))
            if count == 0 or late_ns > SAME_NS or abs(own_ns - burst_ns) > SAME_NS:
                train_ns, burst_ns, window_ns, count = at_ns, own_ns, own_window_ns, 0
                n += 1
            same = bursts - chunk if len(since_ns) == 1 else 1
            count, chunk = count + same, chunk + same
            if n <= len(trains):
                _fill(
                    trains[n - 1], route[hop], zero_ns[hop] + train_ns, burst_ns, window_ns, count
                )
                trains[n - 1]["follows"] = chunk > count
    trains["burst_bytes"][:] = burst_bytes
    return n


@compiled_part
def _fill(
    train: Array, route: int, start_ns: float, burst_ns: float, period_ns: float, bursts: int
) -> None:
    train["route"] = route
    train["start_ns"] = start_ns
    train["burst_ns"] = burst_ns
    train["period_ns"] = period_ns
    train["bursts"] = bursts


@compiled_part
def _lowest(since_ns: Floats, burst: Floats, row: int, hop: int, until_ns: float) -> float:
    """The lowest burst rate of ``hop`` from ``row`` of the log until ``until_ns``."""
    lowest = float(burst[row, hop])
    while row + 1 < len(since_ns) and since_ns[row + 1] < until_ns - SAME_NS:
        row += 1
        lowest = min(lowest, burst[row, hop])
    return lowest
