"""Components of graphs, on edges as connections give them: directed, and repeated."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmprism.numerics.graph import components_of_edges

NODES = st.integers(0, 12)


@given(st.lists(st.tuples(NODES, NODES), max_size=30))
def test_edges_share_a_label_exactly_if_a_path_joins_them(edges):
    src, dst = (np.array([edge[i] for edge in edges], np.int32) for i in (0, 1))
    label = components_of_edges(src, dst)
    parts = [{node} for node in range(13)]
    for a, b in edges:  # merge the sets of both ends
        one, two = (next(part for part in parts if node in part) for node in (a, b))
        if one is not two:
            parts.remove(two)
            one |= two
    own = [next(i for i, part in enumerate(parts) if a in part) for a, _ in edges]
    for i in range(len(edges)):
        for j in range(len(edges)):
            assert (label[i] == label[j]) == (own[i] == own[j])
