"""How a group of ranks reduces and gathers."""

from prism_sim.training.collectives.ring import OPERATIONS, Ring, rings_of

__all__ = ["OPERATIONS", "Ring", "rings_of"]
