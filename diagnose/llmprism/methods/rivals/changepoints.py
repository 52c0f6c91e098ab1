"""Change points of the time of a step, with verification, in the manner of Greyhound.

The records that an endpoint sends repeat from step to step. The shortest lag at which most records
equal the earlier ones (receiver and size) is the number of records in a step. So the time of each
step is known, and Bayesian change-point detection finds where its level changes. A change is
reported if ten steps or more lie on both sides, and the means differ by more than 10 %. The job is
the culprit: Greyhound finds the slow part by tests on the machines themselves.

References
----------
T. Wu et al., "Greyhound: Hunting Fail-Slows in Hybrid-Parallel Training at Scale", USENIX ATC 2025,
arXiv:2410.12588: period by autocorrelation (up to 200 lags, first value of at least 0.7),
3-sigma outliers removed, the bounds above. The publication names Bayesian online change-point
detection, as here; its released code calls another detector, Rbeast, with probability 0.8.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods import register
from llmprism.methods.rivals.connected import connected_jobs, job_table, pair_table
from llmprism.model import Progress
from llmprism.numerics.arrays import Codes, Floats, Ints
from llmprism.numerics.bocd import Prior, run_lengths
from prism_common.kinds import UNKNOWN

_LAGS = 200
_ALIKE = 0.7  # of the records equal those one period earlier
_APART = 10  # steps on both sides of a change
_DIFFERENT = 0.1  # of the means, relative to the earlier one
_HAZARD = 1 / 100  # a change in a hundred steps
_OUTLIER = 3.0  # standard deviations


@register("changepoints")
def changepoints(
    flows: FlowTable, topology: Topology, progress: Progress
) -> dict[str, pd.DataFrame]:
    """Return jobs, pairs, steps, and a finding for each slower stretch of steps."""
    jobs = connected_jobs(flows, topology)
    job = jobs.of_address[flows.src]
    steps = [_steps_of(flows, np.flatnonzero(job == n), name) for n, name in enumerate(jobs.names)]
    progress(1.0, "change points")
    rows = [row for table in steps for row in slow_stretches(table)]
    tables = {"jobs": job_table(flows, jobs), "pairs": pair_table(flows, jobs)}
    tables["steps"] = pd.concat(steps, ignore_index=True) if steps else pd.DataFrame()
    tables["findings"] = pd.DataFrame(rows).assign(finding=range(len(rows)))
    return {name: table for name, table in tables.items() if len(table)}


def _steps_of(flows: FlowTable, rows: Ints, job: str) -> pd.DataFrame:
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
