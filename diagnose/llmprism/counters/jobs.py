"""Jobs: ports whose rates rise and fall together.

All ranks of a job wait for each other in every step, so whatever delays one of them delays all.
Over times that are long against a refresh, the rates of two ports of a job are therefore in
proportion, whatever each of them carries; those of two jobs are not. *Kinship* of two ports is
their correlation, with two conditions:

- Scale. Noise of refreshes and lags within a step fade with the length of a bin, so within a job
  the correlation tends to 1, and a job with hardly any rhythm shows by its rare delays. Two jobs
  with steps of one length are alike in short bins only. So the longest bins count in which both
  ports are clearly like any port at all.
- Shift. The two fit best as they are: shifted against each other, they correlate no better. So
  jobs in step are distinguished by their phase, and two slow trends are no evidence.

A tree of average kinship is cut at one half: ports belong together if they have more in common
than not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from llmprism.counters.curves import Curves, Rates
from llmprism.counters.rhythm import SILENT
from llmprism.numerics.arrays import Bools, Codes, Floats, Ints

TOGETHER = 0.5
"""Correlation from which two ports have more in common than not."""
FEWEST_BINS = 48
"""Of the longest scale: two unrelated ports then correlate by 0.5 once in 8,000 couples."""
SHORTEST_BIN = 2
"""Refreshes of the shortest scale: below, the noise of refreshes is most of a bin."""
CLEAR = 0.9
"""Of the correlation with the likest port at the best scale, that a clear scale has."""
SHIFTS = 32
"""Shifts tried; the margin below is what two of them differ by within one job."""
SHIFT_MARGIN = 0.05
"""By which a shifted pair may fit better, since a period is no whole number of bins."""
SHIFTED_BY = 0.125
"""Of the recording, at least: shorter shifts are delays within a step."""
BUSY = 1e-5
"""Of its link's capacity that a port of a job moves: heartbeats and monitoring are below."""
TWO_WAY = 0.5
"""Of the larger direction that the smaller one has: training exchanges, a reader of data does
not."""
UNBALANCED = 0.1
"""By which a member may seem to move more than the others: readings end at different times."""
ASSUMED_BPS = 1e11
"""Rate of a link where the topology has none."""
_SEED = 61


@dataclass(frozen=True)
class PortJobs:
    """The job of each port.

    Attributes
    ----------
    job : of each port, -1 for none, shape (ports,); 0 is the job with most bytes.
    busy : ports with traffic that training may have caused, shape (ports,).
    kinship : of each port with the rest of its job, NaN for none, shape (ports,).
    """

    job: Codes
    busy: Bools
    kinship: Floats

    @property
    def count(self) -> int:
        """Number of jobs."""
        return int(self.job.max(initial=-1)) + 1

    def members(self, job: int) -> Ints:
        """The ports of a job."""
        return np.flatnonzero(self.job == job)


def find_jobs(curves: Curves, servers: Ints, link_bps: Floats) -> PortJobs:
    """Group servers by the rhythm of their busy NICs.

    Parameters
    ----------
    servers : server of each port, shape (ports,).
    link_bps : rate of each port's link, NaN if unknown, shape (ports,).
    """
    busy = busy_ports(curves, link_bps)
    rows = np.flatnonzero(busy)
    job = np.full(len(curves.ports), -1, np.int32)
    near = np.full(len(curves.ports), np.nan)
    if np.unique(servers[rows]).size < 2:
        return PortJobs(job, busy, near)
    traffic = curves.exchanged(rows)
    of_port = units_of(traffic, curves.known[rows], servers[rows], curves)
    units = int(of_port.max()) + 1
    summed, known = np.zeros((units, curves.bins)), np.ones((units, curves.bins), bool)
    np.add.at(summed, of_port, traffic)
    np.logical_and.at(known, of_port, curves.known[rows])
    home = np.zeros(units, np.int64)
    home[of_port] = servers[rows]
    bond = kinship(summed, known, curves)
    groups = balanced(grouped_by(bond), summed.sum(axis=1), home)
    job[rows] = groups[of_port]
    near[rows] = _with_the_rest(bond, groups)[of_port]
    return PortJobs(job, busy, near)


def units_of(traffic: Floats, known: Bools, servers: Ints, curves: Curves) -> Ints:
    """Unit of each port: its server, or those of its NICs that are in one job.

    Several jobs may share a server. Its NICs are parted where two of them have less than half in
    common of what each of them has with NICs of other servers.
    """
    bond = kinship(traffic, known, curves)
    groups = grouped_by(bond)
    outside = np.where((groups[:, None] == groups) & (servers[:, None] != servers), bond, np.nan)
    rest = np.nan_to_num(_row_mean(outside))
    unit = np.unique(servers, return_inverse=True)[1] * (int(groups.max()) + 2)
    for server in np.unique(servers):
        nics = np.flatnonzero(servers == server)
        if (rest[nics] < TOGETHER).any() or np.unique(groups[nics]).size == 1:
            continue
        first = nics[rest[nics].argmax()]
        apart = bond[first, nics] < TOGETHER * np.sqrt(rest[first] * rest[nics])
        unit[nics[apart]] += 1 + groups[nics[apart]]
    return np.unique(unit, return_inverse=True)[1]


def balanced(groups: Codes, size: Floats, home: Ints) -> Codes:
    """Number of each group by its bytes, largest first; -1 for units that are in no job.

    Units of a job exchange all their traffic with each other, so none can move more than all
    others together; one that does is in no job. A job has several servers.
    """
    jobs = []
    for group in np.unique(groups):
        units = np.flatnonzero(groups == group)
        while units.size > 1 and 2 * size[units].max() > (1 + UNBALANCED) * size[units].sum():
            units = np.delete(units, size[units].argmax())
        if np.unique(home[units]).size > 1:
            jobs.append(units)
    number = np.full(groups.size, -1, np.int32)
    for code, units in enumerate(sorted(jobs, key=lambda each: -size[each].sum())):
        number[units] = code
    return number


def busy_ports(curves: Curves, link_bps: Floats) -> Bools:
    """Ports with two-way traffic beyond that of an idle server."""
    sums = curves.moved.sum(axis=2, dtype=np.float64)
    low, high = sums.min(axis=1), sums.max(axis=1)
    rate = np.where(np.isnan(link_bps), ASSUMED_BPS, link_bps)
    least = BUSY * rate / 8 * curves.span_ns / 1e9
    return np.asarray((low >= least) & (low >= TWO_WAY * high))


def kinship(moved: Floats, known: Bools, curves: Curves) -> Floats:
    """How much every two units have in common, shape (units, units).

    Parameters
    ----------
    moved, known : bytes of each unit in each bin, and whether they are known, shape (units, bins).
    """
    scales = []
    bins = max(1, round(SHORTEST_BIN * curves.resolution_ns / curves.bin_ns))
    while curves.bins // bins >= FEWEST_BINS:
        scales.append(_at_scale(*_coarser(moved, known, bins)))
        bins *= 2
    return _at_longest_clear(np.array(scales)) if scales else np.zeros((moved.shape[0],) * 2)


def _at_longest_clear(scales: Floats) -> Floats:
    """The correlation at the longest scale at which both units are clearly like any unit at all."""
    apart = scales * (1 - np.eye(scales.shape[1]))
    likeness = apart.max(axis=2)
    clear = np.minimum(likeness[:, :, None], likeness[:, None, :])
    enough = clear >= CLEAR * clear.max(axis=0)
    longest = scales.shape[0] - 1 - enough[::-1].argmax(axis=0)
    return np.asarray(np.take_along_axis(scales, longest[None], axis=0)[0])


def _coarser(moved: Floats, known: Bools, bins: int) -> tuple[Floats, Bools]:
    """The same in bins that are ``bins`` times as long."""
    count = moved.shape[1] // bins
    shape = (moved.shape[0], count, bins)
    sums = moved[:, : count * bins].reshape(shape).sum(axis=2)
    return sums, np.asarray(known[:, : count * bins].reshape(shape).all(axis=2))


def _at_scale(moved: Floats, known: Bools) -> Floats:
    """Correlation of every two units where no shift fits better, else 0.

    Two units are compared over the bins in which both train, so that they are not alike for
    beginning and ending together.
    """
    trains = known & _training(moved)
    mean = np.where(trains, moved, 0).sum(axis=1) / np.maximum(trains.sum(axis=1), 1)
    centred = np.where(trains, moved - mean[:, None], 0.0)
    centred = (centred / np.maximum(mean[:, None], 1e-30)).astype(np.float32)
    shared = trains.astype(np.float32)
    together = _correlation(centred, shared, centred, shared)
    bins = moved.shape[1]
    low, high = int(SHIFTED_BY * bins), int((1 - SHIFTED_BY) * bins)
    highest = np.full_like(together, -1.0)
    for shift in np.random.default_rng(_SEED).integers(low, high, SHIFTS):
        shifted = _correlation(
            centred, shared, np.roll(centred, shift, axis=1), np.roll(shared, shift, axis=1)
        )
        np.maximum(highest, np.maximum(shifted, shifted.T), out=highest)
    return np.where(together >= highest - SHIFT_MARGIN, np.maximum(together, 0.0), 0.0)


def _training(moved: Floats) -> Bools:
    """Bins between the first and the last one with traffic of each unit, shape (units, bins)."""
    active = moved >= SILENT * moved.mean(axis=1, keepdims=True)
    since = np.logical_or.accumulate(active, axis=1)
    until = np.logical_or.accumulate(active[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(since & until)


def _correlation(first: Rates, shared: Rates, second: Rates, also: Rates) -> Floats:
    """Correlation of every two rows over the bins of both; 0 with fewer than enough.

    Most units train in all bins, and need one product of matrices instead of four.
    """
    lengths = [np.sqrt((part**2).sum(axis=1)) for part in (first, second)]
    scale = np.maximum(lengths[0][:, None] * lengths[1][None, :], 1e-30)
    found: Floats = (first @ second.T / scale).astype(np.float64)
    for rows, columns in ((~shared.all(axis=1), slice(None)), (slice(None), ~also.all(axis=1))):
        a, b, one, two = first[rows], second[columns], shared[rows], also[columns]
        if a.size and b.size:
            scale = np.sqrt((a**2 @ two.T) * (one @ (b**2).T))
            enough = (one @ two.T >= FEWEST_BINS) & (scale > 0)
            part = np.where(enough, a @ b.T / np.where(enough, scale, 1.0), 0.0)
            found[np.ix_(np.arange(len(first))[rows], np.arange(len(second))[columns])] = part
    return found


def grouped_by(bond: Floats) -> Codes:
    """Group of each unit, from the tree of average kinship."""
    distance = 1 - np.clip(bond, 0.0, 1.0)
    tree = linkage(distance[np.triu_indices(distance.shape[0], 1)], "average")
    return np.asarray(fcluster(tree, 1 - TOGETHER, "distance"), np.int32) - 1


def _with_the_rest(bond: Floats, groups: Codes) -> Floats:
    """Mean kinship of each unit with the other units of its job; NaN where it has none."""
    same = (groups[:, None] == groups) & (groups >= 0)
    np.fill_diagonal(same, False)
    return _row_mean(np.where(same, bond, np.nan))


def _row_mean(values: Floats) -> Floats:
    """Mean of each row over what is no NaN; NaN for a row without anything."""
    there = ~np.isnan(values)
    count = there.sum(axis=1)
    mean = np.where(there, values, 0.0).sum(axis=1) / np.maximum(count, 1)
    return np.where(count > 0, mean, np.nan)


def disagreement(first: Sequence[int], second: Sequence[int]) -> tuple[int, int]:
    """Couples that are together in either of two groupings of the same units, and in only one.

    >>> disagreement([0, 0, 1], [0, 0, 0])
    (3, 2)
    """
    a, b = (np.asarray(codes)[:, None] == np.asarray(codes) for codes in (first, second))
    upper = np.triu_indices(len(first), 1)
    return int((a | b)[upper].sum()), int((a ^ b)[upper].sum())
