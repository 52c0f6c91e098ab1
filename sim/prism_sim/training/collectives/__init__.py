"""How a group of ranks reduces, gathers and exchanges, one file an algorithm.

A new algorithm is a new file and one entry: in :data:`ALL_REDUCES` if it can be chosen for
all-reduces, else in :data:`ALGORITHMS`. Another package brings one for all-reduces as an entry
point ``prism_sim.collectives``.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping

from prism_sim.registry import Registry
from prism_sim.training.collectives.all_to_all import all_to_all
from prism_sim.training.collectives.base import Builder, Collective, Group
from prism_sim.training.collectives.chain import chains
from prism_sim.training.collectives.hierarchical import hierarchical
from prism_sim.training.collectives.ring import rings
from prism_sim.training.collectives.shift import shift
from prism_sim.training.collectives.tree import trees

ALL_REDUCES: Registry[Builder] = Registry(
    "prism_sim.collectives", by_name={"ring": rings, "tree": trees, "hierarchical": hierarchical}
)
"""Builders of the algorithms that a job can choose for its all-reduces, by name."""

ALGORITHMS: Mapping[str, Builder] = ChainMap(
    {"chain": chains, "all_to_all": all_to_all, "shift": shift},
    ALL_REDUCES,  # type: ignore[arg-type]  # a chain only reads all maps but the first
)
"""Builders of all algorithms, by name."""

__all__ = ["ALGORITHMS", "ALL_REDUCES", "Builder", "Collective", "Group"]
