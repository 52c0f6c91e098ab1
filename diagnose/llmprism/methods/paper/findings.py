"""Stage 4, diagnosis: which steps, groups and switches were slower than their like?

Three comparisons by the k-sigma rule (:mod:`llmprism.methods.paper.sigma`):

- *cross-step*: the durations of a rank's steps over time;
- *cross-group*: the DP communication durations of a job's DP groups within one step;
- *switch* (:mod:`llmprism.methods.paper.switches`): concurrent DP flows against a limit, and
  mean DP bandwidth compared across switches.

Ranks of a job wait for each other and are late together, so their cross-step alarms over the
same steps become one finding. The publication does not name the slow rank of a late
job. A rank that only waits loses as much time as the rank it waits for, so equal losses
show no culprit: a rank is named if it lost more than twice as much as any other rank of the
job. Otherwise the finding concerns the job, and gives the number of affected addresses.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.paper.alarms import COLUMNS, finding, stretches
from llmprism.methods.paper.sigma import k_sigma
from llmprism.methods.paper.switches import switch_findings
from llmprism.model import DP, Finding, Groups, Jobs, Pairs, Steps, Timeline

ROUNDING_NS = 2.0  # a duration is the difference of two times, each rounded to whole ns
_APART = 2.0  # a culprit's loss over the largest loss of another rank


def diagnose_faults(
    flows: FlowTable,
    topology: Topology,
    jobs: Jobs,
    pairs: Pairs,
    timeline: Timeline,
    groups: Groups,
) -> list[Finding]:
    """Return everything that stands out, by level, then by time."""
    found = [
        *_cross_step(timeline.steps, jobs, flows.addresses),
        *_cross_group(timeline.steps, groups, jobs, flows.addresses),
        *switch_findings(flows, topology, jobs, pairs, timeline),
    ]
    levels = ("step", "group", "switch")
    return sorted(found, key=lambda one: (levels.index(one.level), one.start_ns, one.job))


def _cross_step(steps: Steps, jobs: Jobs, addresses: list[str]) -> Iterator[Finding]:
    duration = (steps.end_ns - steps.start_ns).astype(np.float64)
    out = k_sigma(duration, steps.address, resolution=ROUNDING_NS)
    table = pd.DataFrame(
        {
            "job": jobs.of_address[steps.address],
            "culprit": steps.address,
            "step": steps.step,
            "start_ns": steps.start_ns,
            "end_ns": steps.end_ns,
            "value": duration,
            "normal": out.normal,
            "distance": out.distance,
            "confidence": out.confidence,
            "excess_ns": duration - out.normal,
        },
        columns=COLUMNS,
    )
    alarms = table[out.flagged]
    for stretch in stretches(alarms.assign(culprit=0)):
        job, last = int(stretch["job"].iloc[0]), stretch["step"].max()
        slow = alarms.loc[stretch.index]
        during = table[(table["job"] == job) & table["step"].between(stretch["step"].min(), last)]
        affected = _by_loss(slow)
        worst = _rank_apart(_by_loss(during), affected.index)
        yield finding(
            _median_of_ranks(slow) if worst is None else slow[slow["culprit"] == worst],
            level="step",
            symptom="slow_step",
            culprit_kind="job" if worst is None else "address",
            culprit=jobs.names[job] if worst is None else addresses[worst],
            evidence={
                "affected": len(affected),
                "of": int(np.count_nonzero(jobs.of_address == job)),
                "addresses": [addresses[code] for code in affected.index],
            },
        )


def _by_loss(rows: pd.DataFrame) -> pd.Series[float]:
    """Return the time that each rank lost [ns], the largest loss first."""
    lost = rows.groupby("culprit")["excess_ns"].sum()
    return lost.sort_values(ascending=False, kind="stable")


def _rank_apart(lost: pd.Series[float], alarmed: pd.Index[int]) -> int | None:
    """Return the rank that lost far more than all others; None if there is no such rank.

    It must have an alarm of its own: a rank can lose more over all steps, and raise none.
    """
    if len(lost) > 1 and lost.iloc[0] <= _APART * lost.iloc[1]:
        return None
    worst = int(lost.index[0])
    return worst if worst in alarmed else None


def _median_of_ranks(alarms: pd.DataFrame) -> pd.DataFrame:
    """Return one alarm a step: from the first start to the last end, medians over the ranks."""
    extent = {"job": "first", "start_ns": "min", "end_ns": "max"}
    medians = dict.fromkeys(("value", "normal", "distance", "confidence", "excess_ns"), "median")
    return alarms.groupby("step", as_index=False).agg({**extent, **medians})


def _cross_group(
    steps: Steps, groups: Groups, jobs: Jobs, addresses: list[str]
) -> Iterator[Finding]:
    """Compare DP groups; a group's duration in a step is the median over its members."""
    of_kind = groups.kind == DP
    home = np.full(len(addresses), -1, dtype=np.int64)
    home[groups.address[of_kind]] = groups.group[of_kind]
    table = pd.DataFrame(
        {
            "job": jobs.of_address[steps.address],
            "culprit": home[steps.address],
            "step": steps.step,
            "start_ns": steps.dp_start_ns,
            "end_ns": steps.dp_end_ns,
            "value": (steps.dp_end_ns - steps.dp_start_ns).astype(np.float64),
        }
    )
    table = table.groupby(["job", "culprit", "step"], as_index=False).agg(
        start_ns=("start_ns", "min"), end_ns=("end_ns", "max"), value=("value", "median")
    )
    sample = table.groupby(["job", "step"]).ngroup().to_numpy()
    out = k_sigma(table["value"].to_numpy(), sample, resolution=ROUNDING_NS)
    table["normal"], table["distance"] = out.normal, out.distance
    table["confidence"], table["excess_ns"] = out.confidence, table["value"] - out.normal
    for stretch in stretches(table[out.flagged]):
        job, group = int(stretch["job"].iloc[0]), int(stretch["culprit"].iloc[0])
        members = of_kind & (groups.job == job) & (groups.group == group)
        yield finding(
            stretch,
            level="group",
            symptom="slow_group",
            culprit_kind="group",
            culprit=f"{jobs.names[job]}/dp-{group}",
            evidence={"addresses": [addresses[code] for code in groups.address[members]]},
        )
