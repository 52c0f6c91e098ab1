"""Stage 4, diagnosis: which steps, groups and switches were slower than their like?

Three comparisons by the k-sigma rule (:mod:`llmprism.methods.paper.sigma`):

- *cross-step*: the durations of a rank's steps over time;
- *cross-group*: the DP communication durations of a job's DP groups within one step;
- *switch*: concurrent DP flows against a limit, and
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
from llmprism.methods.paper.sigma import COLUMNS, Outliers, finding, k_sigma, stretches
from llmprism.model import DP, Finding, Groups, Jobs, Pairs, Steps, Timeline
from llmprism.numerics.arrays import Codes, Floats, Ints, grouped

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
        }
    )
    table = _compared(table, out, duration - out.normal)
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


def _compared(table: pd.DataFrame, out: Outliers, excess_ns: Floats | pd.Series) -> pd.DataFrame:
    """Values with how far each is from what is normal, in the columns of alarms."""
    judged = table.assign(
        normal=out.normal, distance=out.distance, confidence=out.confidence, excess_ns=excess_ns
    )
    return judged[list(COLUMNS)]


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
    table = _compared(table, out, table["value"] - out.normal)
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


# Switch level of stage 4: contention at a switch, and slow flows through it.
#
# (a) *Contention*. The distinct DP pairs with traffic through a switch at one moment are counted
# and compared with a limit, which the publication leaves to the operator. Here it follows from
# the topology: the sum of the switch's link rates over the rate of a NIC is the number of flows
# that the switch can carry at line rate; one more, and some must share. If a link's rate is not
# known, the limit comes from the data instead: mean plus three standard deviations of the
# peaks of the switches of the same tier, in the same job and step.
#
# (b) *Bandwidth*. The mean bandwidth of the DP flows through each switch, by job and step, is
# compared with that of the other switches of its tier; low outliers are findings.
#
# Unknown hops (``?``, or a name that is not in the topology) are left out, and so are
# flows without a duration, which have no bandwidth.


def switch_findings(
    flows: FlowTable, topology: Topology, jobs: Jobs, pairs: Pairs, timeline: Timeline
) -> Iterator[Finding]:
    """Yield contended switches and switches with slow DP flows; none without paths."""
    table = _by_switch(flows, topology, jobs, pairs, timeline)
    if table.empty:
        return
    for symptom, alarms in (
        ("switch_contention", _contention(table, line_rate_flows(topology))),
        ("low_switch_bandwidth", _low_bandwidth(table)),
    ):
        for stretch in stretches(alarms):
            switch = topology.switches[int(stretch["culprit"].iloc[0])]
            evidence: dict[str, object] = {"tier": switch.tier}
            yield finding(stretch, "switch", symptom, "switch", switch.name, evidence)


def line_rate_flows(topology: Topology) -> Floats:
    """Return the number of flows that each switch can carry at a NIC's rate; NaN if unknown."""
    return np.floor(topology.switch_gbps / topology.nic_gbps)


def _by_switch(
    flows: FlowTable, topology: Topology, jobs: Jobs, pairs: Pairs, timeline: Timeline
) -> pd.DataFrame:
    """Return one row per (job, step, switch): DP traffic's times, mean rate, peak of pairs."""
    flow = np.flatnonzero((timeline.of_flow >= 0) & (flows.path >= 0) & (flows.durations_ns > 0))
    by_path = grouped(flows.path[flow], len(flows.paths))
    crossing = _paths_across(flows.paths, topology)
    parts = [pd.DataFrame(columns=["job", "step", "switch", "start_ns", "end_ns", "rate", "peak"])]
    for switch, paths in enumerate(crossing):
        rows = [flow[by_path.rows(path)] for path in paths]
        own = np.sort(np.concatenate(rows)) if rows else np.empty(0, dtype=np.int64)
        if own.size == 0:
            continue
        crossed = pd.DataFrame(
            {
                "job": jobs.of_address[flows.src[own]],
                "step": timeline.steps.step[timeline.of_flow[own]],
                "start_ns": flows.start_ns[own],
                "end_ns": flows.end_ns[own],
                "rate": flows.bytes[own] * 8e9 / flows.lengths_ns(own),
                "peak": _pairs_at_start(flows, own, pairs.of_flow[own]),
            }
        )
        summary = crossed.groupby(["job", "step"], as_index=False).agg(
            start_ns=("start_ns", "min"),
            end_ns=("end_ns", "max"),
            rate=("rate", "mean"),
            peak=("peak", "max"),
        )
        parts.append(summary.assign(switch=switch, tier=topology.tiers[switch]))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def _paths_across(paths: list[str], topology: Topology) -> list[list[int]]:
    """Return the paths that pass through each switch."""
    across: list[list[int]] = [[] for _ in topology.switches]
    for number, path in enumerate(paths):
        for name in dict.fromkeys(path.split("|")):
            switch = topology.switch_codes.get(name)
            if switch is not None:
                across[switch].append(number)
    return across


def _pairs_at_start(flows: FlowTable, own: Ints, pair: Codes) -> Ints:
    """Return the number of distinct pairs with traffic when each flow starts, including it.

    Overlapping flows of one pair count once: a pair is busy from the first start to the last
    end of flows that touch. Flows ``own`` are in order of start.
    """
    order = np.argsort(pair, kind="stable")
    start, end = flows.start_ns[own[order]], flows.end_ns[own[order]]
    group = pair[order]
    until = pd.Series(end).groupby(group).cummax().to_numpy()
    opens = np.ones(start.size, dtype=np.bool_)
    opens[1:] = (np.diff(group) != 0) | (start[1:] > until[:-1])
    closes = np.append(opens[1:], True)
    begun = np.searchsorted(np.sort(start[opens]), flows.start_ns[own], side="right")
    over = np.searchsorted(np.sort(until[closes]), flows.start_ns[own], side="right")
    busy: Ints = begun - over
    return busy


def _low_bandwidth(table: pd.DataFrame) -> pd.DataFrame:
    sample = table.groupby(["job", "step", "tier"]).ngroup().to_numpy()
    out = k_sigma(table["rate"].to_numpy(), sample, sign=-1.0)
    busy = table["end_ns"] - table["start_ns"]
    alarms = table.rename(columns={"switch": "culprit", "rate": "value"})
    return _compared(alarms, out, busy * (1.0 - table["rate"] / out.normal))[out.flagged]


def _contention(table: pd.DataFrame, limit: Floats) -> pd.DataFrame:
    """Return alarms where the peak exceeds the limit; the excess is the share above it."""
    peak = table["peak"].to_numpy(np.float64)
    sample = table.groupby(["job", "step", "tier"]).ngroup().to_numpy()
    out = k_sigma(peak, sample)
    known = limit[table["switch"].to_numpy(np.int64)]
    by_topology = ~np.isnan(known)
    normal = np.where(by_topology, known, out.normal)
    beyond = 1.0 - normal / peak
    alarms = table.rename(columns={"switch": "culprit", "peak": "value"})
    alarms = _compared(alarms, out, (table["end_ns"] - table["start_ns"]) * beyond)
    confidence = np.where(by_topology, beyond, out.confidence)
    flagged = np.where(by_topology, peak > known, out.flagged)
    return alarms.assign(normal=normal, confidence=confidence)[flagged]
