"""Switch level of stage 4: contention at a switch, and slow flows through it.

(a) *Contention*. The distinct DP pairs with traffic through a switch at one moment are counted
and compared with a limit, which the publication leaves to the operator. Here it follows from
the topology: the sum of the switch's link rates over the rate of a NIC is the number of flows
that the switch can carry at line rate; one more, and some must share. If a link's rate is not
known, the limit comes from the data instead: mean plus three standard deviations of the
peaks of the switches of the same tier, in the same job and step.

(b) *Bandwidth*. The mean bandwidth of the DP flows through each switch, by job and step, is
compared with that of the other switches of its tier; low outliers are findings.

Unknown hops (``?``, or a name that is not in the topology) are left out, and so are
flows without a duration, which have no bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.methods.paper.alarms import COLUMNS, finding, stretches
from llmprism.methods.paper.sigma import k_sigma
from llmprism.model import Finding, Jobs, Pairs, Timeline
from llmprism.numerics.arrays import Codes, Floats, Ints, grouped


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
    alarms = table.rename(columns={"switch": "culprit", "rate": "value"}).assign(
        normal=out.normal,
        distance=out.distance,
        confidence=out.confidence,
        excess_ns=busy * (1.0 - table["rate"] / out.normal),
    )
    return alarms.loc[out.flagged, list(COLUMNS)]


def _contention(table: pd.DataFrame, limit: Floats) -> pd.DataFrame:
    """Return alarms where the peak exceeds the limit; the excess is the share above it."""
    peak = table["peak"].to_numpy(np.float64)
    sample = table.groupby(["job", "step", "tier"]).ngroup().to_numpy()
    out = k_sigma(peak, sample)
    known = limit[table["switch"].to_numpy(np.int64)]
    by_topology = ~np.isnan(known)
    normal = np.where(by_topology, known, out.normal)
    beyond = 1.0 - normal / peak
    alarms = table.rename(columns={"switch": "culprit", "peak": "value"}).assign(
        normal=normal,
        distance=out.distance,
        confidence=np.where(by_topology, beyond, out.confidence),
        excess_ns=(table["end_ns"] - table["start_ns"]) * beyond,
    )
    flagged = np.where(by_topology, peak > known, out.flagged)
    return alarms.loc[flagged, list(COLUMNS)]
