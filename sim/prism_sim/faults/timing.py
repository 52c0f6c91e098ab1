"""Faults that come and go within their window: what happens when.

A fault that is active all the time needs none of this. Times are counted from the fault's
beginning, so they follow from the scenario alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field, model_validator

from prism_sim.clock import Clock
from prism_sim.faults.base import FaultBase
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.target import Undo


def nanoseconds(seconds: float) -> int:
    """``seconds`` as nanoseconds, at least one."""
    return max(1, round(seconds * 1e9))


def repeatedly(clock: Clock, every_ns: int, act: Callable[[int], None]) -> Undo:
    """Call ``act`` with 0 now, with 1 after ``every_ns``, and so on; returns what ends this."""
    over: list[bool] = []

    def turn(number: int) -> None:
        if not over:
            act(number)
            clock.call_at(clock.now + every_ns, lambda: turn(number + 1))

    turn(0)
    return lambda: over.append(True)


def pulses(clock: Clock, every_ns: int, lasting_ns: int, begin: Callable[[], Undo]) -> Undo:
    """Make a change now and every ``every_ns``, each time for ``lasting_ns``."""
    active: list[Undo] = []

    def end(undo: Undo) -> None:
        if undo in active:
            active.remove(undo)
            undo()

    def pulse(_: int) -> None:
        undo = begin()
        active.append(undo)
        clock.call_at(clock.now + lasting_ns, lambda: end(undo))

    stop = repeatedly(clock, every_ns, pulse)

    def over() -> None:
        stop()
        for undo in [*active]:
            end(undo)

    return over


class Pulsed(FaultBase):
    """A fault that is active for a part of every period only."""

    every_s: float = Field(ge=1e-6, le=1e8, description="Time from one onset to the next [s].")
    lasts_s: float = Field(ge=1e-9, le=1e8)
    """Time that each one lasts [s]; shorter than every_s."""

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """Each pulse lasts a quarter of its period."""
        every_s = max(drawing.every_s, 4e-6)
        return super().drawn(drawing) | {"every_s": every_s, "lasts_s": every_s / 4}

    @property
    def share(self) -> float:
        """Share of the time during which the fault is active."""
        return self.lasts_s / self.every_s

    @model_validator(mode="after")
    def _shorter_than_its_period(self) -> Pulsed:
        if self.lasts_s >= self.every_s:
            raise ValueError(f"lasts_s {self.lasts_s:g} is not shorter than every_s")
        return self

    def pulsed(self, clock: Clock, begin: Callable[[], Undo]) -> Undo:
        """Make the change of ``begin`` in every period."""
        return pulses(clock, nanoseconds(self.every_s), nanoseconds(self.lasts_s), begin)
