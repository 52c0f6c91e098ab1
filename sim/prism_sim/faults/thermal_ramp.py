"""A GPU that heats up: its speed falls slowly, and stays low."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import SLOW_COMPUTE, SlowFault
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfRank
from prism_sim.faults.target import Target, Undo
from prism_sim.faults.timing import nanoseconds, repeatedly

LEVELS = 20
"""Equal steps from the healthy speed to the lowest."""


class ThermalRamp(OfRank, SlowFault):
    """The speed of one rank falls evenly from its healthy value to ``factor`` of it.

    The clock of a hot GPU is lowered in small steps, here 20, until heat and cooling balance.
    """

    causes: ClassVar[frozenset[str]] = SLOW_COMPUTE

    kind: Literal["thermal_ramp"] = "thermal_ramp"
    ramp_s: float = Field(ge=1e-6, le=1e8, description="Time from the first to the last step [s].")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"ramp_s": drawing.lasts_s / 2}

    def begin(self, target: Target) -> Undo:
        undo: list[Undo] = []

        def lower(number: int) -> None:
            if number < LEVELS:
                revert()
                factor = 1 - (1 - self.factor) * (number + 1) / LEVELS
                undo.append(target.compute.slow(self.job, self.rank, factor))
            else:
                stop()

        def revert() -> None:
            while undo:
                undo.pop()()

        stop = repeatedly(target.clock, nanoseconds(self.ramp_s / (LEVELS - 1)), lower)

        def end() -> None:
            stop()
            revert()

        return end
