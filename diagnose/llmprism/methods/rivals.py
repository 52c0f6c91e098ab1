"""Methods that others are compared with: one that knows nothing, and two of another kind.

They are short, and use none of the stages of the other methods. A comparison shows which of the
figures of a method are more than what anybody would get. Servers that traffic connects are one job,
and all traffic is data-parallel.

- ``null`` has jobs and pairs, and nothing is slow.
- ``autocorrelation`` counts all bytes of a job in short intervals. Training repeats, so the
  autocorrelation of the counts has peaks at the length of a step and its multiples. Every step of
  every rank has this length, and begins where traffic is usually least. A longer step is missed.
- ``changepoints`` works in the manner of Greyhound. The shortest lag at which most records of an
  endpoint equal the earlier ones (receiver and size) is the number of records in a step, so the
  time of each step is known. Bayesian change-point detection finds where its level changes; ten
  steps or more lie on both sides, and the means differ by more than 10 %. The job is the culprit:
  Greyhound finds the slow part by tests on the machines themselves.

References
----------
T. Wu et al., "Greyhound: Hunting Fail-Slows in Hybrid-Parallel Training at Scale", USENIX ATC 2025,
arXiv:2410.12588: period by autocorrelation (up to 200 lags, first value of at least 0.7),
3-sigma outliers removed, the bounds above. The publication names Bayesian online change-point
detection, as here; its released code calls another detector, Rbeast, with probability 0.8.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.tables import DIAGNOSIS
from llmprism.io.topology import Topology
from llmprism.methods import register
from llmprism.model import Jobs
from llmprism.numerics.arrays import Codes, Floats, Ints
from llmprism.numerics.bocd import Prior, run_lengths
from llmprism.numerics.graph import components, distinct
from prism_common.kinds import DP, UNKNOWN
from prism_common.progress import Progress

_INTERVALS = 1 << 14  # of a recording
_PEAK = 0.7  # a peak of at least this part of the highest one is the period
_QUIET = 50  # the quietest of so many parts of a period is where a step begins
_LAGS = 200
_ALIKE = 0.7  # of the records equal those one period earlier
_APART = 10  # steps on both sides of a change
_DIFFERENT = 0.1  # of the means, relative to the earlier one
_HAZARD = 1 / 100  # a change in a hundred steps
_OUTLIER = 3.0  # standard deviations


def connected_jobs(flows: FlowTable, topology: Topology) -> Jobs:
    """The job of each endpoint: those that exchange anything, and NICs of one server, share it."""
    size = len(flows.addresses)
    src, dst, _ = flows.pairs
    active = np.unique(np.concatenate([src, dst]))
    first_of_server = np.zeros(size, np.int32)
    first_of_server[topology.servers[active[::-1]]] = active[::-1]
    ends = (
        np.concatenate([src, active]),
        np.concatenate([dst, first_of_server[topology.servers[active]]]),
    )
    component = components(*distinct(*ends), size)
    of_address = np.full(size, -1, np.int32)
    of_address[active], found = pd.factorize(component[active])
    return Jobs(of_address, len(found))


def job_table(flows: FlowTable, jobs: Jobs) -> pd.DataFrame:
    """The table ``jobs``."""
    members = np.flatnonzero(jobs.of_address >= 0)
    names, addresses = np.array([*jobs.names, ""]), np.array(flows.addresses, object)
    return pd.DataFrame({"job": names[jobs.of_address[members]], "address": addresses[members]})


def pair_table(flows: FlowTable, jobs: Jobs) -> pd.DataFrame:
    """The table ``pairs``: all traffic is data-parallel, which is the commonest kind."""
    src, dst, _ = flows.pairs
    names, addresses = np.array([*jobs.names, ""]), np.array(flows.addresses, object)
    table = {"job": names[jobs.of_address[src]], "src": addresses[src], "dst": addresses[dst]}
    return pd.DataFrame(table).assign(kind=DP, kind_unrefined=DP, confidence=0.0)


@register("null")
def null(flows: FlowTable, topology: Topology, progress: Progress) -> dict[str, pd.DataFrame]:
    """Return jobs and pairs, and no finding; it says nothing about steps."""
    jobs = connected_jobs(flows, topology)
    progress(1.0, "jobs")
    calm = DIAGNOSIS["findings"].empty_table().to_pandas()
    return {"jobs": job_table(flows, jobs), "pairs": pair_table(flows, jobs), "findings": calm}


@register("autocorrelation")
def autocorrelation(
    flows: FlowTable, topology: Topology, progress: Progress
) -> dict[str, pd.DataFrame]:
    """Return jobs, pairs, and steps of equal length."""
    jobs = connected_jobs(flows, topology)
    tables = [_steps_of(flows, jobs.of_address == job, name) for job, name in enumerate(jobs.names)]
    progress(1.0, "period")
    steps = {"steps": pd.concat(tables, ignore_index=True)} if tables else {}
    return {"jobs": job_table(flows, jobs), "pairs": pair_table(flows, jobs), **steps}


def _steps_of(flows: FlowTable, members: np.ndarray, job: str) -> pd.DataFrame:
    """The table ``steps`` of one job."""
    rows = np.flatnonzero(members[flows.src])
    start_ns, end_ns = int(flows.start_ns[rows].min()), int(flows.end_ns[rows].max())
    width_ns = max(1, -(-(end_ns - start_ns) // _INTERVALS))
    counts = np.bincount(
        (flows.start_ns[rows] - start_ns) // width_ns, flows.bytes[rows], _INTERVALS
    ).astype(np.float64)
    period = period_of(counts)
    if not period:
        return pd.DataFrame()
    begin = start_ns + width_ns * _quietest(counts, period)
    borders = np.arange(begin, end_ns + width_ns * period, width_ns * period)
    tables = [
        pd.DataFrame({"step": np.arange(borders.size - 1), "address": flows.addresses[end]}).assign(
            start_ns=borders[:-1], end_ns=borders[1:], dp_end_ns=borders[1:]
        )
        for end in np.unique(flows.src[rows])
    ]
    return pd.concat(tables).assign(job=job, confidence=0.5)


def period_of(counts: Floats) -> int:
    """The period of ``counts``, in their number; 0 without one.

    It is the lag of the first high peak of the autocorrelation, beyond its first minimum.

    >>> period_of(np.tile([5.0, 0.0, 0.0, 1.0], 20))
    4
    """
    centred = counts - counts.mean()
    spectrum = np.fft.rfft(centred, 2 * counts.size)
    at_lag = np.fft.irfft(np.abs(spectrum) ** 2)[: counts.size // 2]
    at_lag /= np.arange(counts.size, counts.size - at_lag.size, -1)
    falling = np.flatnonzero(np.diff(at_lag) > 0)
    if not falling.size:
        return 0
    beyond = at_lag[falling[0] :]
    peaks = [lag for lag in _peaks(beyond) if beyond[lag] >= _PEAK * beyond.max() > 0]
    return int(falling[0]) + peaks[0] if peaks else 0


def _peaks(values: Floats) -> Iterator[int]:
    """Where ``values`` are higher than before and not lower than after."""
    inner = values[1:-1]
    yield from (np.flatnonzero((inner > values[:-2]) & (inner >= values[2:])) + 1).tolist()


def _quietest(counts: Floats, period: int) -> int:
    """The phase of the least traffic: the middle of a window of a fiftieth of the period."""
    folded = np.bincount(np.arange(counts.size) % period, counts, period)
    width = max(1, period // _QUIET)
    window: Ints = (np.arange(period)[:, None] + np.arange(width)) % period
    return int(folded[window].sum(axis=1).argmin()) + width // 2


@register("changepoints")
def changepoints(
    flows: FlowTable, topology: Topology, progress: Progress
) -> dict[str, pd.DataFrame]:
    """Return jobs, pairs, steps, and a finding for each slower stretch of steps."""
    jobs = connected_jobs(flows, topology)
    job = jobs.of_address[flows.src]
    steps = [
        _counted_steps(flows, np.flatnonzero(job == n), name) for n, name in enumerate(jobs.names)
    ]
    progress(1.0, "change points")
    rows = [row for table in steps for row in slow_stretches(table)]
    tables = {"jobs": job_table(flows, jobs), "pairs": pair_table(flows, jobs)}
    tables["steps"] = pd.concat(steps, ignore_index=True) if steps else pd.DataFrame()
    tables["findings"] = pd.DataFrame(rows).assign(finding=range(len(rows)))
    return {name: table for name, table in tables.items() if len(table)}


def _counted_steps(flows: FlowTable, rows: Ints, job: str) -> pd.DataFrame:
    """The table ``steps`` of one job, from its rows."""
    tables = [_steps_at(flows, rows[flows.src[rows] == end]) for end in np.unique(flows.src[rows])]
    return pd.concat(tables, ignore_index=True).assign(job=job, confidence=0.5)


def _steps_at(flows: FlowTable, rows: Ints) -> pd.DataFrame:
    """Steps of one endpoint, from the records that it sends in order of time."""
    content = pd.DataFrame({"dst": flows.dst[rows], "bytes": flows.bytes[rows]})
    alike = np.asarray(content.groupby(["dst", "bytes"]).ngroup(), np.int32)
    period = records_in_a_step(alike)
    begin = flows.start_ns[rows[::period]] if period else rows[:0]
    steps = pd.DataFrame({"step": np.arange(max(0, len(begin) - 1))})
    return steps.assign(
        address=flows.addresses[flows.src[rows[0]]],
        start_ns=begin[:-1], end_ns=begin[1:], dp_end_ns=begin[1:],
    )  # fmt: skip


def records_in_a_step(content: Codes) -> int:
    """The shortest lag at which most records equal the earlier ones; 0 if there is none.

    >>> records_in_a_step(np.tile([1, 1, 2, 3], 9))
    4
    """
    lags = range(1, min(_LAGS, content.size // 2) + 1)
    alike = (lag for lag in lags if np.mean(content[lag:] == content[:-lag]) >= _ALIKE)
    return next(alike, 0)


def slow_stretches(steps: pd.DataFrame) -> list[dict[str, object]]:
    """A finding for each stretch of steps of a job that is slower than the one before it."""
    if steps.empty:
        return []
    times_ns = (steps["end_ns"] - steps["start_ns"]).groupby(steps["step"]).median().to_numpy()
    times_ns = times_ns.astype(np.float64)
    borders = [0, *_changes(times_ns), times_ns.size]
    means = [times_ns[a:b].mean() for a, b in pairwise(borders)]
    found = []
    for place in range(1, len(means)):
        normal, slow = means[place - 1], means[place]
        if slow > (1 + _DIFFERENT) * normal:
            first, last = borders[place], borders[place + 1] - 1
            own = steps[steps["step"].between(first, last)]
            found.append(
                {
                    "level": "job", "symptom": "slow_step", "cause": UNKNOWN,
                    "job": own["job"].iloc[0], "culprit_kind": "job", "culprit": own["job"].iloc[0],
                    "first_step": first, "last_step": last,
                    "start_ns": own["start_ns"].min(), "end_ns": own["end_ns"].max(),
                    "magnitude": 1 - normal / slow, "cost": (slow - normal) * (last - first + 1),
                    "confidence": 0.5, "evidence": "{}",
                }
            )  # fmt: skip
    return found


def _changes(times_ns: Floats) -> list[int]:
    """Steps at which a new level begins, verified."""
    centre, spread = np.median(times_ns), np.std(times_ns)
    clean = np.clip(times_ns, centre - _OUTLIER * spread, centre + _OUTLIER * spread)
    if not spread:
        return []
    scaled = (clean - centre) / spread
    runs = run_lengths(scaled, Prior(0.0, 0.1, 1.0, 0.1), _HAZARD, most=times_ns.size + 2)
    starts = np.unique(np.arange(scaled.size) + 1 - runs.most_likely)
    kept: list[int] = []
    for start in starts.tolist():
        before = kept[-1] if kept else 0
        apart = start - before >= _APART and times_ns.size - start >= _APART
        levels = times_ns[before:start], times_ns[start : start + _APART]
        if apart and abs(levels[1].mean() / levels[0].mean() - 1) > _DIFFERENT:
            kept.append(start)
    return kept
