"""How a group of ranks reduces, gathers and exchanges, one file an algorithm.

A new algorithm is a new file and one line in :data:`ALGORITHMS`.
"""

from __future__ import annotations

from prism_sim.training.collectives.all_to_all import all_to_all
from prism_sim.training.collectives.base import Builder, Collective, Group
from prism_sim.training.collectives.chain import chains
from prism_sim.training.collectives.hierarchical import hierarchical
from prism_sim.training.collectives.ring import rings
from prism_sim.training.collectives.shift import shift
from prism_sim.training.collectives.tree import trees

ALGORITHMS: dict[str, Builder] = {
    "ring": rings,
    "tree": trees,
    "hierarchical": hierarchical,
    "chain": chains,
    "all_to_all": all_to_all,
    "shift": shift,
}
"""What builds the collectives of a group, by the algorithm's name."""

__all__ = ["ALGORITHMS", "Builder", "Collective", "Group"]
