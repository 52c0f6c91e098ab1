"""Tensor parallelism across servers: activations are summed up behind every half of a layer.

Attention and the feed-forward part each end in an all-reduce of the micro-batch's activations,
forward and backward. With sequence parallelism each begins with an all-gather and ends in a
reduce-scatter; backward, the input is gathered once more, behind the compute. Inside a server
all this is NVLink's business, and its time part of the pass.

References: Shoeybi et al., Megatron-LM, 2019, section 3; Korthikanti et al., Reducing activation
recomputation, 2022, section 4.2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from prism_sim.training.exchanges.base import Around, blocking
from prism_sim.training.layers import Phase
from prism_sim.training.program import Await, Join, Joins


@dataclass(frozen=True)
class Summed:
    """Partial sums, all-reduced."""

    seat: Joins
    size_bytes: int

    def around(self, phase: Phase, forward: bool) -> Around:
        if phase.layer < 0:
            return Around()
        return Around(after=blocking(self.seat, "all_reduce", self.size_bytes, phase.layer))


@dataclass(frozen=True)
class Scattered:
    """Activations that are scattered over the group between the halves of a layer."""

    seat: Joins
    size_bytes: int

    def around(self, phase: Phase, forward: bool) -> Around:
        if phase.layer < 0:
            return Around()
        layer, size = phase.layer, self.size_bytes
        slot = f"input {layer}"
        again = Join(self.seat, "all_gather", size, slot, activations=True, layer=layer)
        return Around(
            before=blocking(self.seat, "all_gather", size, layer),
            during=() if forward else ((Fraction(0), again), (Fraction(1), Await(slot))),
            after=blocking(self.seat, "reduce_scatter", size, layer),
        )
