"""Stage 1, job recognition (Algorithm 1): addresses that exchange traffic form a job.

Addresses that exchange flows, directly or through others, are in one *cross-machine cluster*.
Tensor parallelism stays inside servers and is not observed, so a job appears as several clusters
(one per tensor-parallel index, on rail-optimised networks one per rail) on the same servers.
Clusters whose server sets are equal (Jaccard index 1) are therefore merged.

The limitations of the publication are kept (trap 6): two jobs on exactly the same
servers become one; a job whose connecting flows are missing is divided; a job within one
server has no flows and is not found; and an endpoint that two jobs both use (storage,
logging) merges them. The publication does not define the start of its one-minute window. Here the
window consists of all given records.

Stage 2, communication type (Algorithm 2): is a pair data or pipeline parallel?

Each pair's flows are divided into steps and the distinct flow sizes N_k of every step k counted.
A pipeline sends activations of one shape, so its messages have one size; gradients are sent in
buckets of several sizes. ``mode(N_k) == 1`` means PP, anything else DP. Refinement: DP
is transitive, so every pair inside one connected component of the DP graph becomes DP.

The publication leaves the following open: pairs are *directed*, because the two
directions carry different traffic (activations forward, gradients back; a ring has one direction)
and would form two interleaved sequences if mixed. Sizes are exact. If two counts are equally
frequent, the smaller is the mode.

Kept as published: one PP pair with the type DP joins two stages' DP groups, and refinement then
changes every PP pair between them (trap 4); a job whose DP messages all have one size appears as
PP throughout, and nothing corrects it (trap 5); FSDP, expert and context parallelism and variable
sequence lengths violate "one size is PP" (trap 7); acknowledgements, set-up traffic and records
that timeouts cut are pairs and sizes like any other (trap 8).

Groups of ranks that train in parallel: DP groups, and pipelines with their order.

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
from llmprism.io.topology import Topology
from llmprism.methods.paper.cutting import cut_steps
from llmprism.methods.paper.timeline import rows_at
from llmprism.model import CANNOT_TELL, DP, PP, UNKNOWN, Groups, Jobs, Pairs, Steps, Timeline
from llmprism.numerics.arrays import Bools, Codes, Floats, Grouped, Ints, grouped
from llmprism.numerics.graph import components


def recognise_jobs(flows: FlowTable, topology: Topology) -> Jobs:
    """Find the addresses of each job (Algorithm 1).

    Jobs are numbered by their first flow, then by size and traffic; names of addresses have
    no effect.
    """
    nodes = len(flows.addresses)
    active = np.zeros(nodes, dtype=np.bool_)
    src, dst, _ = flows.pairs
    active[src] = True
    active[dst] = True
    if not active.any():
        return Jobs(np.full(nodes, -1, dtype=np.int32), 0)
    cluster = components(src, dst, nodes)
    label = _merge_equal_servers(cluster, active, topology.servers)
    label[~active] = -1
    return _numbered(label, flows)


def _merge_equal_servers(cluster: Codes, active: np.ndarray, servers: Codes) -> Codes:
    """Give clusters with the same set of servers the same label."""
    members: dict[int, set[int]] = {}
    for node in np.flatnonzero(active).tolist():
        members.setdefault(int(cluster[node]), set()).add(int(servers[node]))
    label_of: dict[frozenset[int], int] = {}
    merged = np.full(int(cluster.max()) + 1, -1, dtype=np.int32)
    for label, where in members.items():
        merged[label] = label_of.setdefault(frozenset(where), label)
    return merged[cluster]


def _numbered(label: Codes, flows: FlowTable) -> Jobs:
    """Number the labels (-1: none) by first start, size, number of flows, bytes."""
    of_flow = label[flows.src]
    first = np.full(label.size, np.iinfo(np.int64).max)
    np.minimum.at(first, of_flow, flows.start_ns)
    records = np.bincount(of_flow, minlength=label.size)
    volume = np.bincount(of_flow, weights=flows.bytes, minlength=label.size)
    found, position, sizes = np.unique(label[label >= 0], return_index=True, return_counts=True)
    rank = np.lexsort((position, -volume[found], -records[found], -sizes, first[found]))
    number: Ints = np.empty(label.size, dtype=np.int64)
    number[found[rank]] = np.arange(found.size)
    of_address = np.where(label >= 0, number[label], -1).astype(np.int32)
    return Jobs(of_address, int(found.size))


def classify_pairs(flows: FlowTable, jobs: Jobs) -> Pairs:
    """Classify every communicating pair, before and after refinement.

    Confidence: the share of steps that agree with the kind, by Laplace's rule of
    succession, (agreeing + 1) / (steps + 2). For a pair that refinement changed: the share
    of pairs in its component that were DP before, by the same rule.
    """
    src, dst, of_flow = flows.pairs
    by = grouped(of_flow, src.size)
    cuts = cut_steps(flows.start_ns, flows.end_ns, by)
    single, share = _verdicts(flows.bytes[by.order], cuts.step, by)
    raw = np.where(single, PP, DP).astype(np.int8)
    inside, dp_share = _refine(src, dst, raw == DP, len(flows.addresses))
    kind = np.where(inside, DP, raw).astype(np.int8)
    confidence = np.where(kind == raw, share, dp_share)
    first = by.order[by.offsets[:-1]]
    return Pairs(
        src=src,
        dst=dst,
        job=jobs.of_address[src],
        kind=kind,
        kind_unrefined=raw,
        confidence=confidence,
        start_ns=flows.start_ns[first],
        bytes=np.bincount(of_flow, weights=flows.bytes, minlength=src.size).astype(np.int64),
        of_flow=of_flow,
    )


def _verdicts(sizes: Ints, step: Codes, by: Grouped) -> tuple[Bools, Floats]:
    """Return whether mode(N_k) is 1, and the share of steps that agree, by pair."""
    pair = by.codes
    opens = np.ones(sizes.size, dtype=np.bool_)  # True at the first flow of a pair's step
    opens[1:] = (np.diff(pair) != 0) | (np.diff(step) != 0)
    number = np.cumsum(opens) - 1
    ordered = sizes[np.lexsort((sizes, number))]
    fresh = opens.copy()  # True where a size first occurs in the step
    fresh[1:] |= np.diff(ordered) != 0
    distinct = np.add.reduceat(fresh, np.flatnonzero(opens), dtype=np.int64)
    votes = pd.DataFrame({"pair": pair[opens], "distinct": distinct}).value_counts(sort=False)
    often = votes.rename("steps").reset_index()
    often = often.sort_values(["pair", "steps", "distinct"], ascending=[True, False, True])
    mode = often.drop_duplicates("pair")["distinct"].to_numpy()
    single = np.bincount(pair[opens], weights=distinct == 1)
    steps = np.bincount(pair[opens])
    agree = np.where(mode == 1, single, steps - single)
    return mode == 1, (agree + 1.0) / (steps + 2.0)


def _refine(src: Codes, dst: Codes, is_dp: Bools, nodes: int) -> tuple[Bools, Floats]:
    """Return the pairs inside one component of the DP graph, and the DP share of each one's."""
    label = components(src[is_dp], dst[is_dp], nodes)
    inside = label[src] == label[dst]
    home = label[src[inside]]
    total = np.bincount(home, minlength=nodes)
    agree = np.bincount(home, weights=is_dp[inside], minlength=nodes)
    return inside, ((agree + 1.0) / (total + 2.0))[label[src]]


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
