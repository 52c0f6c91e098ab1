"""A hang: one rank stops without a word, and all others wait for it."""

from __future__ import annotations

from typing import ClassVar, Literal

from prism_sim.faults.places import OfRank
from prism_sim.faults.stopping import Stopping
from prism_sim.faults.target import Target, Undo


class Hang(Stopping, OfRank):
    """One rank, and its tensor-parallel group, stops before its next pass.

    What was sent arrives. The others follow one after another, when they need what does not come.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"crash"})

    kind: Literal["hang"] = "hang"

    def begin(self, target: Target) -> Undo:
        release = target.compute.hold(self.job, self.rank)
        target.compute.fail(self.job, None, self.noticed_ns, self.down_ns)
        return release
