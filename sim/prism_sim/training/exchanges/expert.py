"""Expert parallelism: tokens travel to their experts and back, twice a layer and pass.

Every rank sends each token to the ranks that hold its experts (dispatch) and gets the results
back (combine); backward, gradients go the same ways in reverse. Nobody computes until all of
the group's tokens are there. Experts are not equally popular, so neither are their ranks:
what goes from one rank to another differs from layer to layer and micro-batch to micro-batch,
and comes back as large as it went. That crowded ranks also compute longer is left out.

References: Lepikhin et al., GShard, ICLR'21, section 3.1; Rajbhandari et al., DeepSpeed-MoE,
ICML'22, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from prism_sim.training.exchanges.base import Around, blocking
from prism_sim.training.layers import Phase
from prism_sim.training.program import Joins


@dataclass(frozen=True)
class Dispatched:
    """Tokens of a rank, ``size_bytes`` of them with every expert they are sent to."""

    seat: Joins
    size_bytes: int

    def around(self, phase: Phase, forward: bool) -> Around:
        if phase.name != "experts":
            return Around()
        there = blocking(self.seat, "dispatch", self.size_bytes, phase.layer)
        back = blocking(self.seat, "combine", self.size_bytes, phase.layer)
        return Around(before=there, after=back)
