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


def groups(src: Codes, dst: Codes, nodes: int) -> tuple[frozenset[int], ...]:
    """The sets of nodes, of ``nodes`` in all, that edges from ``src`` to ``dst`` join.

    >>> [sorted(own) for own in groups(np.array([1, 2, 7]), np.array([2, 4, 8]), 9)]
    [[1, 2, 4], [7, 8]]
    """
    label = components(src, dst, nodes)
    members: dict[int, set[int]] = {}
    for end in np.unique(np.concatenate((src, dst))).tolist():
        members.setdefault(int(label[end]), set()).add(end)
    return tuple(frozenset(group) for group in members.values())


def largest_group(src: Codes, dst: Codes) -> int:
    """Members of the largest group of nodes that edges from ``src`` to ``dst`` join.

    >>> largest_group(np.array([1, 2, 7]), np.array([2, 4, 8]))
    3
    """
    label = components_of_edges(src, dst)
    ends = np.column_stack((np.tile(label, 2), np.concatenate((src, dst))))
    return int(np.bincount(np.unique(ends, axis=0)[:, 0]).max())
