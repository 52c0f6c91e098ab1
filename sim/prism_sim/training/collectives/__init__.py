"""Algorithms of collectives.

A new all-reduce is a class that derives from
:class:`~prism_sim.training.collectives.base.AllReduceBase` and has a literal ``kind``, and one
entry in :data:`ALL_REDUCES`, or an entry point ``prism_sim.collectives`` of another package.
Algorithms of other operations have one entry in :data:`ALGORITHMS`.
"""

from __future__ import annotations

from collections.abc import Mapping

from prism_sim.registry import Registry, by_literal
from prism_sim.training.collectives.base import AllReduceBase, Builder, Collective, Group
from prism_sim.training.collectives.node_limited import HierarchicalAllReduce, hierarchical
from prism_sim.training.collectives.pipelined import TreeAllReduce, chains, trees
from prism_sim.training.collectives.ring import RingAllReduce, rings
from prism_sim.training.collectives.uncoupled import all_to_all, shift

ALL_REDUCES: Registry[type[AllReduceBase]] = Registry(
    "prism_sim.collectives", RingAllReduce, TreeAllReduce, HierarchicalAllReduce, name_of=by_literal
)
"""The algorithms that a job can choose for its all-reduces, by name."""

ALGORITHMS: Mapping[str, Builder] = {
    "ring": rings,
    "tree": trees,
    "hierarchical": hierarchical,
    "chain": chains,
    "all_to_all": all_to_all,
    "shift": shift,
}
"""Builders of this package's algorithms, by name."""

__all__ = ["ALGORITHMS", "ALL_REDUCES", "AllReduceBase", "Builder", "Collective", "Group"]
