"""Graphs of addresses: which of them are connected."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from llmprism.numerics.arrays import Codes


def components(a: Codes, b: Codes, nodes: int) -> Codes:
    """Label the connected components of an undirected graph; no edge is given twice."""
    graph = coo_array((np.ones(a.size, dtype=np.int8), (a, b)), shape=(nodes, nodes))
    labels: Codes = connected_components(graph, directed=False)[1].astype(np.int32)
    return labels


def components_of_edges(src: Codes, dst: Codes) -> Codes:
    """The label of each edge's connected component; edges may be given more than once."""
    edges = np.unique(np.column_stack((src, dst)), axis=0).astype(np.int32)
    nodes = int(edges.max(initial=-1)) + 1
    label = components(edges[:, 0], edges[:, 1], nodes)
    return label[src]
