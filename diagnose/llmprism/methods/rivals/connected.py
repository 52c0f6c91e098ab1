"""What the rivals have in common: servers that are connected by traffic are one job."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from llmprism.io.flows import FlowTable
from llmprism.io.topology import Topology
from llmprism.model import Jobs
from prism_common.kinds import DP


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
    graph = coo_array((np.ones(ends[0].size), ends), (size, size))
    _, component = connected_components(graph, directed=False)
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
