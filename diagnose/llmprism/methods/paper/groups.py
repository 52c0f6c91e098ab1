"""Groups of ranks that train in parallel: DP groups, and pipelines with their order.

A DP group is a connected component of a job's DP graph, a pipeline a connected component of
its PP graph. The publication gives no order of stages. Here a pipeline whose pairs form a
simple chain is ordered by time: in a step, the first stage sends (an activation) before
it receives (a gradient), and the last stage receives first. Each step is one vote at either end;
if the two ends do not agree, or the pairs form no chain, positions stay unknown. The order
around a DP ring has no beginning that flows could show, and stays unknown as well.

The size of an axis of a layout is the most common size of its groups (the larger of equally common
ones). A job with groups of only one kind has size 1 along the other axis, because traffic along an
axis would be observed. The published method does not determine tensor, expert and context
parallelism, micro-batches, schedule and sharding, so they stay unknown. The period is the median
time from the end of the DP traffic of one step to that of the next.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from llmprism.io.flows import FlowTable
from llmprism.io.tables import DIAGNOSIS
from llmprism.methods.paper.timeline import rows_at
from llmprism.model import CANNOT_TELL, DP, PP, UNKNOWN, Groups, Jobs, Pairs, Steps, Timeline
from llmprism.numerics.arrays import Floats, Ints, grouped
from llmprism.numerics.graph import components


def form_groups(flows: FlowTable, pairs: Pairs, timeline: Timeline) -> Groups:
    """Find DP groups and pipelines, numbered within job and kind by first flow, then size."""
    nodes = len(flows.addresses)
    pipelines = _members(pairs, PP, nodes)
    pipelines["position"] = _stages(pipelines, pairs, _speaking_first(flows, pairs, timeline))
    members = pd.concat([_members(pairs, DP, nodes), pipelines], ignore_index=True)
    members = members.sort_values(["job", "kind", "group", "position", "address"])
    return Groups(
        job=members["job"].to_numpy(np.int32),
        kind=members["kind"].to_numpy(np.int8),
        group=members["group"].to_numpy(np.int64),
        address=members["address"].to_numpy(np.int32),
        position=members["position"].to_numpy(np.int64),
    )


def _members(pairs: Pairs, kind: int, nodes: int) -> pd.DataFrame:
    """Return a row a member of a group of ``kind``, positions unknown (-1)."""
    of_kind = pairs.kind == kind
    src, dst = pairs.src[of_kind], pairs.dst[of_kind]
    label = components(src, dst, nodes)
    address = np.unique(np.concatenate((src, dst)))
    table = pd.DataFrame(
        {
            "home": label[src],
            "job": pairs.job[of_kind],
            "start_ns": pairs.start_ns[of_kind],
            "bytes": pairs.bytes[of_kind],
        }
    )
    groups = table.groupby("home").agg(
        job=("job", "first"), start_ns=("start_ns", "min"), bytes=("bytes", "sum")
    )
    groups["size"] = np.bincount(label[address], minlength=nodes)[groups.index]
    order = ["job", "start_ns", "size", "bytes"]
    groups = groups.sort_values(order, ascending=[True, True, False, False], kind="stable")
    groups["group"] = groups.groupby("job").cumcount()
    own: pd.DataFrame = groups.loc[label[address], ["job", "group"]].reset_index(drop=True)
    return own.assign(kind=kind, address=address, position=-1)


def _stages(pipelines: pd.DataFrame, pairs: Pairs, speaking_first: Floats) -> Ints:
    """Return the stage of every pipeline member, -1 if unknown."""
    of_kind = pairs.kind == PP
    ends = np.sort(np.column_stack((pairs.src[of_kind], pairs.dst[of_kind])), axis=1)
    edges = np.unique(ends, axis=0)
    address = pipelines["address"].to_numpy()
    home = np.zeros(speaking_first.size, dtype=np.int64)
    home[address] = pipelines.groupby(["job", "group"]).ngroup()
    by = grouped(home[edges[:, 0]], int(home.max(initial=0)) + 1)
    stage: Ints = np.full(speaking_first.size, -1, dtype=np.int64)
    for group in range(by.sizes.size):
        chain = _chain(edges[by.rows(group)].tolist())
        if not chain:
            continue
        if speaking_first[chain[0]] < speaking_first[chain[-1]]:
            chain.reverse()
        if speaking_first[chain[0]] > 0.5 > speaking_first[chain[-1]]:
            stage[chain] = np.arange(len(chain))
    stages: Ints = stage[address]
    return stages


def _chain(edges: list[list[int]]) -> list[int]:
    """Return the nodes along a simple chain, from either end; empty if it is not a chain.

    >>> _chain([[1, 2], [0, 2]])
    [0, 2, 1]
    >>> _chain([[0, 1], [1, 2], [0, 2]])
    []
    """
    beside: dict[int, list[int]] = {}
    for a, b in edges:
        beside.setdefault(a, []).append(b)
        beside.setdefault(b, []).append(a)
    tips = sorted(node for node, others in beside.items() if len(others) == 1)
    if len(tips) != 2 or any(len(others) > 2 for others in beside.values()):
        return []
    chain = [tips[0], *beside[tips[0]]]
    while chain[-1] != tips[1]:
        chain += [node for node in beside[chain[-1]] if node != chain[-2]]
    return chain


def _speaking_first(flows: FlowTable, pairs: Pairs, timeline: Timeline) -> Floats:
    """Return the share of an address's steps in which it sends PP traffic before it receives any.

    An address without steps has one vote, for all its records. NaN without PP traffic.
    Shape (endpoints,).
    """
    nodes = len(flows.addresses)
    flow = np.flatnonzero(pairs.kind[pairs.of_flow] == PP).astype(np.int32)
    entries = grouped(np.column_stack((flows.src[flow], flows.dst[flow])).ravel(), nodes)
    address = entries.codes
    row = rows_at(flows.start_ns[flow[entries.order // 2]], address, timeline.steps, nodes)
    opens = np.ones(row.size, np.bool_)  # rows of an address never decrease, but for a last -1
    opens[1:] = (np.diff(address) != 0) | (np.diff(row) != 0)
    opens &= (row >= 0) | ~np.isin(address, timeline.steps.address)
    sent = entries.order[opens] % 2 == 0
    votes, voted = (
        np.bincount(address[opens], sent, nodes),
        np.bincount(address[opens], minlength=nodes),
    )
    with np.errstate(invalid="ignore"):
        return votes / np.where(voted > 0, voted, np.nan)


def layouts(jobs: Jobs, groups: Groups, steps: Steps) -> pd.DataFrame:
    """Return the table ``layouts``, one row per job.

    Confidence: the share of the job's groups that have the size given for their axis.
    """
    members = pd.DataFrame({"job": groups.job, "kind": groups.kind, "group": groups.group})
    by_group = members.groupby(["job", "kind", "group"]).size().reset_index(name="size")
    periods = _periods(jobs, steps)
    rows = []
    for job, name in enumerate(jobs.names):
        here = by_group[by_group["job"] == job]
        own = {kind: here.loc[here["kind"] == kind, "size"].tolist() for kind in (DP, PP)}
        agreeing = sum(sum(size == _commonest(found) for size in found) for found in own.values())
        total = sum(map(len, own.values()))
        size = {kind: _commonest(found) if found or not total else 1 for kind, found in own.items()}
        evidence = {"dp_group_sizes": own[DP], "pipeline_sizes": own[PP]}
        rows.append(
            {
                **dict.fromkeys(("tp", "ep", "cp", "micro_batches"), CANNOT_TELL),
                **dict.fromkeys(("schedule", "sharding"), UNKNOWN),
                "job": name,
                "dp": size[DP],
                "pp": size[PP],
                "period_ns": periods.get(job, CANNOT_TELL),
                "confidence": agreeing / total if total else 0.0,
                "evidence": json.dumps(evidence, sort_keys=True),
            }
        )
    return pd.DataFrame(rows, columns=DIAGNOSIS["layouts"].names)


def _commonest(sizes: list[int]) -> int:
    return max(sizes, key=lambda size: (sizes.count(size), size), default=CANNOT_TELL)


def _periods(jobs: Jobs, steps: Steps) -> dict[int, int]:
    """Return the median time between the DP ends of successive steps [ns], by job."""
    follows = np.flatnonzero(np.diff(steps.address) == 0)
    table = pd.DataFrame(
        {
            "job": jobs.of_address[steps.address[follows]],
            "period_ns": np.diff(steps.dp_end_ns)[follows],
        }
    )
    medians = table.groupby("job")["period_ns"].median()
    return {int(str(job)): round(period) for job, period in medians.items()}
