"""Context parallelism: keys and values go round a ring while attention computes.

A sequence is cut among cp ranks. Each computes attention of its own queries with one
block of keys and values at a time, and passes the block on to the next rank meanwhile: cp - 1
sends a layer, hidden as long as a block's compute takes longer. Backward, the gradients of keys
and values go round with them, so messages are twice as large.

Reference: Liu, Zaharia and Abbeel, Ring attention with blockwise transformers, ICLR'24.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from prism_sim.training.exchanges.base import Around
from prism_sim.training.layers import Phase
from prism_sim.training.program import Await, Join, Joins, Point


@dataclass(frozen=True)
class Ringed:
    """A ring of ``ranks``; ``size_bytes`` are those of a rank's keys and values."""

    seat: Joins
    ranks: int
    size_bytes: int

    def around(self, phase: Phase, forward: bool) -> Around:
        if phase.name != "attention":
            return Around()
        size = self.size_bytes * (1 if forward else 2)
        points: list[Point] = []
        for block in range(self.ranks - 1):
            slot = f"block {block}"
            send = Join(self.seat, "kv_ring", size, slot, activations=True, layer=phase.layer)
            points.append((Fraction(block, self.ranks), send))
            points.append((Fraction(block + 1, self.ranks), Await(slot)))
        return Around(during=tuple(points))
