"""Which connections carry traffic that comes back, for each attempt of a job.

The data-carrying connections form a directed graph. Training traffic circulates: a ring
returns to where it began, a pipeline answers every activation with a gradient, an exchange
goes both ways. So training happens inside the *strongly connected components* of that graph,
and what only flows one way (a checkpoint to storage, logs to a collector) lies between them.
What flows back must be comparable: a checkpoint that is answered by a small read is one way.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from llmprism.io.flows import FlowTable
from llmprism.methods.prism.records.connections import Connections
from llmprism.numerics.arrays import Codes, Ints

WAITED = 20.0  # times its usual record: no transfer of a job that goes on takes as long
RECORDS = 8  # of a connection that show what is usual
COMPARABLE = 16.0  # ratio of volumes up to which one connection returns what another brings


def components(nodes: int, src: Codes, dst: Codes) -> Codes:
    """Strongly connected component of each node, shape (nodes,)."""
    graph = coo_matrix((np.ones(src.size, np.int8), (src, dst)), shape=(nodes, nodes))
    _, label = connected_components(graph, directed=True, connection="strong")
    codes: Codes = label.astype(np.int32)
    return codes


def circles(flows: FlowTable, connections: Connections, chosen: Ints) -> list[Ints]:
    """The ``chosen`` connections in which traffic circulates, apart by component and attempt.

    What storage returns before an attempt of a job does not circulate with what ranks save in it.
    """
    nodes, found = len(flows.addresses), []
    for own in joined_circles(connections, chosen, nodes):
        epochs = _epochs(flows, connections, own)
        for epoch in epochs:
            found += joined_circles(connections, epoch, nodes) if len(epochs) > 1 else [epoch]
    return found


def joined_circles(connections: Connections, chosen: Ints, nodes: int) -> list[Ints]:
    """The ``chosen`` connections in which traffic circulates, apart by component only.

    ``nodes`` is the number of endpoints of all traffic.
    """
    label = components(nodes, *_closed(connections, chosen))
    home = label[connections.src[chosen]]
    inside = home == label[connections.dst[chosen]]
    chosen, home = chosen[inside], home[inside]
    return [chosen[home == one] for one in dict.fromkeys(home.tolist())]


def _closed(connections: Connections, chosen: Ints) -> tuple[Codes, Codes]:
    """Senders and receivers of the ``chosen`` connections, and of others that nobody sees.

    Unseen endpoints may answer what they receive, or pass it on to those that receive nothing else.
    """
    src, dst = connections.src[chosen], connections.dst[chosen]
    if connections.to_unseen is None:
        return src, dst
    to_unseen = connections.to_unseen[chosen]
    begins = np.setdiff1d(src, dst)
    unseen = np.unique(dst[to_unseen])
    ways = [(src, dst), (dst[to_unseen], src[to_unseen])]
    ways.append((np.repeat(unseen, begins.size), np.tile(begins, unseen.size)))
    senders, receivers = zip(*ways, strict=True)
    return np.concatenate(senders), np.concatenate(receivers)


def circulating(connections: Connections, chosen: Ints, nodes: int) -> Ints:
    """Those of the ``chosen`` connections that lie on a circle of comparable ones."""
    level = np.floor(np.log2(np.maximum(connections.total_bytes[chosen], 1)))
    kept = np.zeros(chosen.size, np.bool_)
    for one in np.unique(level).tolist():
        own = level == one
        near = chosen[level >= one - np.log2(COMPARABLE)]
        label = components(nodes, *_closed(connections, near))
        kept[own] = label[connections.src[chosen[own]]] == label[connections.dst[chosen[own]]]
    return chosen[kept]


def _epochs(flows: FlowTable, connections: Connections, own: Ints) -> list[Ints]:
    """Part connections where all of the earlier ones have ended before any later one begins.

    A job that is restarted opens all its connections again. A transfer that waited for a silent NIC
    may end when that is back, and the job is too; it counts as ended when it began.
    """
    order = own[np.argsort(connections.first_ns[own], kind="stable")]
    first, ended = connections.first_ns[order], connections.last_ns[order]
    by = connections.by
    begun = flows.start_ns[by.order[by.offsets[order + 1] - 1]]
    between = first[_cuts(first, begun)]
    across = np.searchsorted(between, begun) < np.searchsorted(between, ended, side="right")
    for place in np.flatnonzero(across).tolist():
        if _waited(flows, by.rows(int(order[place]))):
            ended[place] = begun[place]
    return [np.sort(part) for part in np.split(order, _cuts(first, ended))]


def _cuts(first: Ints, ended: Ints) -> Ints:
    """Where all before have ended, and the others, in order of their ``first``, have not begun."""
    cuts: Ints = np.flatnonzero(first[1:] > np.maximum.accumulate(ended)[:-1]) + 1
    return cuts


def _waited(flows: FlowTable, rows: Codes) -> bool:
    """Whether the last record of a connection took far longer than the others."""
    lasted = flows.lengths_ns(rows)
    return lasted.size >= RECORDS and bool(lasted[-1] > WAITED * np.median(lasted[:-1]))
