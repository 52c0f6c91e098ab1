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
"""

from __future__ import annotations

import numpy as np

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.model import Jobs
from llmprism.numerics.arrays import Codes, Ints
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
