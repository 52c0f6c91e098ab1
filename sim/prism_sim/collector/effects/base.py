"""What every effect has in common: a stage that rows of records pass through.

An effect is the scenario's model of one thing that happens to records, in a file of its own.
Its ``stage`` takes a batch of rows and returns another; it draws by the identity of a row,
never in turn, so that no effect disturbs the draws of another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pydantic import Field

from prism_sim.collector.scene import Scene, Stage
from prism_sim.scenario.base import Closed, Remarks
from prism_sim.scenario.setting import Setting

__all__ = ["EffectBase", "Scene", "Stage", "Window"]


class EffectBase(Closed, ABC):
    """One thing that happens to records."""

    kind: str
    after_cutting: ClassVar[bool] = False
    counts: ClassVar[bool] = False  # whether the table gains payload and packets
    delays: ClassVar[bool] = False  # whether records arrive after they end
    needs_packets: ClassVar[bool] = False  # whether it makes sense only where packets are counted

    @property
    def lookback_ns(self) -> int | None:
        """How much earlier than the rows at hand its own rows may begin [ns].

        None: it takes rows as they are reported, by their end. Any number: it needs them in order
        of their begin, so the collector holds them for a while (:mod:`prism_sim.collector.delay`).
        """
        return None

    @abstractmethod
    def stage(self, scene: Scene) -> Stage:
        """What rows pass through, batch after batch."""

    def notes(self) -> dict[str, str]:
        """Metadata of the flow table that the effect changes."""
        return {}

    def remarks(self, setting: Setting) -> Remarks:
        """What is wrong with the effect in this scenario; places count from the effect."""
        yield from ()


class Window(Closed):
    """A span of the simulation's time."""

    from_s: float = Field(ge=0, le=1e8, description="Begin [s].")
    to_s: float = Field(ge=1e-9, le=1e8, description="End [s].")
