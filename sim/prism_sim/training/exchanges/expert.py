"""Expert parallelism: tokens travel to their experts and back, twice a layer and pass.

Every rank sends each token to the ranks that hold its experts (dispatch) and gets the results
back (combine); backward, gradients go the same ways in reverse. Nobody computes until all of
the group's tokens are there. Experts are not equally popular, so neither are their ranks:
what goes from one rank to another differs from layer to layer and micro-batch to micro-batch,
and comes back as large as it went. A rank that more tokens come to computes longer, and with it
everybody who waits for what it sends back. (Where a schedule puts gradients of parameters off, it
does so for those without.)

References: Lepikhin et al., GShard, ICLR'21, section 3.1; Rajbhandari et al., DeepSpeed-MoE,
ICML'22, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from prism_sim.training.exchanges.base import Around, blocking
from prism_sim.training.layers import Phase
from prism_sim.training.program import Burden, Joins


@dataclass(frozen=True)
class Dispatched:
    """Tokens of a rank, ``size_bytes`` of them with every expert they are sent to.

    ``load`` tells what has come to the rank, 1 for the mean; None where all get the same.
    """

    seat: Joins
    size_bytes: int
    load: Callable[[], float] | None = None

    def around(self, phase: Phase, forward: bool) -> Around:
        if phase.name != "experts":
            return Around()
        there = blocking(self.seat, "dispatch", self.size_bytes, phase.layer)
        back = blocking(self.seat, "combine", self.size_bytes, phase.layer)
        if self.load is None:
            return Around(before=there, after=back)
        burden = Burden(self.load, Fraction(phase.routed))
        return Around(before=(*there, burden), after=back)
