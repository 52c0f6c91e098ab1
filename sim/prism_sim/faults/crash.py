"""A crash: the process of one rank ends, and all others wait for it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.faults.places import OfRank
from prism_sim.faults.stopping import Stopping
from prism_sim.faults.target import Target, Undo


class Crash(Stopping, OfRank):
    """One rank, and its tensor-parallel group, ends at once, also in the middle of a pass.

    What was sent arrives. As ``restarts`` of a job, but at any time, and in the truth.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"hang"})

    kind: Literal["crash"] = "crash"
    into_step_s: float = Field(
        default=0.0, ge=0, le=1e8, description="Time from the fault's beginning to the end [s]."
    )

    @property
    def lasts_ns(self) -> int | None:
        return self._delay_ns + (super().lasts_ns or 0)

    def begin(self, target: Target) -> Undo:
        def end() -> None:
            target.compute.fail(self.job, self.rank, self.noticed_ns, self.down_ns)

        target.clock.call_at(target.clock.now + self._delay_ns, end)
        return lambda: None

    @property
    def _delay_ns(self) -> int:
        return round(self.into_step_s * 1e9)
