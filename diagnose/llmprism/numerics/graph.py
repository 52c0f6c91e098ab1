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


def distinct(a: Codes, b: Codes) -> tuple[Codes, Codes]:
    """The same edges, in order, each of them once; nodes are numbers from 0 on.

    >>> distinct(np.array([1, 0, 1]), np.array([2, 3, 2]))
    (array([0, 1], dtype=int32), array([3, 2], dtype=int32))
    """
    edge = a.astype(np.int64) << 32 | b
    edge.sort()  # np.unique hashes, which takes far more time and memory where most are distinct
    edge = edge[np.concatenate((edge[:1] >= 0, edge[1:] != edge[:-1]))]
    return (edge >> 32).astype(np.int32), (edge & 0xFFFFFFFF).astype(np.int32)


def components_of_edges(src: Codes, dst: Codes) -> Codes:
    """The label of each edge's connected component; edges may be given more than once."""
    a, b = distinct(src, dst)
    label = components(a, b, int(max(a.max(initial=-1), b.max(initial=-1))) + 1)
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
