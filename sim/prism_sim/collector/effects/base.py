"""The base of all effects: a stage that rows of records pass through.

An effect models one thing that happens to records, in a file of its own. Its ``stage`` takes a
batch of rows and returns another. Random draws are keyed by the identity of a row, so no effect
changes the draws of another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pydantic import Field

from prism_sim.collector.scene import Scene, Stage
from prism_sim.scenario.base import Closed, Remarks
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.setting import Setting

__all__ = ["EffectBase", "Scene", "Stage", "Window"]


class EffectBase(Closed, ABC):
    """One thing that happens to records."""

    kind: str
    after_cutting: ClassVar[bool] = False
    counts: ClassVar[bool] = False  # whether the table gains payload and packets
    delays: ClassVar[bool] = False  # whether records arrive after they end
    needs_packets: ClassVar[bool] = False  # whether it needs packet counts

    @property
    def lookback_ns(self) -> int | None:
        """How much earlier than the present rows its own rows may start [ns].

        None: it takes rows in the order of their ends, as reported. A number: it needs them in
        order of their starts, so the collector holds them for a while
        (:mod:`prism_sim.collector.delay`).
        """
        return None

    @abstractmethod
    def stage(self, scene: Scene) -> Stage:
        """The function that each batch of rows passes through."""

    def records_a_message(self, cluster: Cluster) -> float:
        """Records that it makes of one, at most, beside those of the others."""
        return 1.0

    def notes(self) -> dict[str, str]:
        """Metadata of the flow table that the effect changes."""
        return {}

    def remarks(self, setting: Setting) -> Remarks:
        """Errors of the effect in this scenario; locations are relative to the effect."""
        yield from ()


class Window(Closed):
    """An interval of simulated time."""

    from_s: float = Field(ge=0, le=1e8, description="Begin [s].")
    to_s: float = Field(ge=1e-9, le=1e8, description="End [s].")
