"""Pauses of garbage collection: the processes of a server stop from time to time."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import SLOW_COMPUTE
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfServer
from prism_sim.faults.target import Target, Undo
from prism_sim.faults.timing import nanoseconds, repeatedly


class GcPauses(OfServer):
    """The ranks of one server pause for ``pause_ms`` every ``every_s``, before their next pass.

    Each process collects when it has created enough objects, so ranks do not pause at one time:
    they begin one after another, evenly over the period. Reference: Lin et al., Understanding
    stragglers in large model training, OSDI'25, section 5.4.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["gc_pauses"] = "gc_pauses"
    pause_ms: float = Field(ge=1e-6, le=1e9, description="Length of a pause [ms].")
    every_s: float = Field(ge=1e-6, le=1e8, description="Time from one pause to the next [s].")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """The pauses take as long together as the severity says."""
        every_s = drawing.every_s
        pause_ms = 1e3 * every_s * (1 - drawing.factor)
        return super().drawn(drawing) | {"every_s": every_s, "pause_ms": pause_ms}

    def magnitude(self, target: Target) -> float:
        return min(1.0, self.pause_ms / 1e3 / (self.every_s + self.pause_ms / 1e3))

    def begin(self, target: Target) -> Undo:
        compute, turns = target.compute, target.compute.workers_on(self.server)

        def pause(number: int) -> None:
            job, rank = turns[number % len(turns)]
            compute.stall(job, rank, nanoseconds(self.pause_ms / 1e3))

        if not turns:
            return lambda: None
        return repeatedly(target.clock, nanoseconds(self.every_s / len(turns)), pause)

    def jobs_affected(self, target: Target) -> list[str]:
        return sorted({job for job, _ in target.compute.workers_on(self.server)})
