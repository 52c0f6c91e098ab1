"""How a group of ranks reduces and gathers."""

from prism_sim.training.collectives.ring import Ring, rings_of

__all__ = ["Ring", "rings_of"]
