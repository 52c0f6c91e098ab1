"""What every effect has in common: a stage that rows of records pass through.

An effect is the scenario's model of one thing that happens to records, in a file of its own.
Its ``stage`` takes a batch of rows and returns another; it draws by the identity of a row,
never in turn, so that no effect disturbs the draws of another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.collector.keyed import Words, hashed, uniform
from prism_sim.collector.rows import Rows
from prism_sim.draws import Draws
from prism_sim.scenario.base import Closed, Remarks

if TYPE_CHECKING:
    from prism_sim.collector.tuples import Tuples
    from prism_sim.scenario.models import Scenario

Stage = Callable[[Rows], Rows]


@dataclass(frozen=True)
class Scene:
    """What stages may know: 5-tuples, draws, and time zero on the collector's clock [ns]."""

    tuples: Tuples
    draws: Draws
    epoch_ns: int

    def uniform(self, purpose: str, rows: Rows) -> NDArray[np.float64]:
        """A number in (0, 1) a row, for one purpose."""
        return self.chance(purpose, rows["id"])

    def chance(self, purpose: str, ids: Words) -> NDArray[np.float64]:
        """A number in (0, 1) an identity, for one purpose."""
        return uniform(self.draws, purpose, ids)

    def identity(self, rows: Rows) -> Words:
        """What tells a row from all others: 5-tuple, place of observation, begin, size."""
        key = self.tuples.column("key")[rows["tuple"]]
        return hashed(key, rows["point"], rows["start_ns"], rows["bytes"])


class EffectBase(Closed):
    """One thing that happens to records."""

    kind: str
    after_cutting: ClassVar[bool] = False
    counts: ClassVar[bool] = False  # whether the table gains payload and packets
    needs_packets: ClassVar[bool] = False  # whether it makes sense only where packets are counted

    def stage(self, scene: Scene) -> Stage:
        """What rows pass through."""
        raise NotImplementedError

    def notes(self) -> dict[str, str]:
        """Metadata of the flow table that the effect changes."""
        return {}

    def remarks(self, scenario: Scenario) -> Remarks:
        """What is wrong with the effect in this scenario; places count from the effect."""
        yield from ()


class Window(Closed):
    """A span of the simulation's time."""

    from_s: float = Field(ge=0, description="Begin [s].")
    to_s: float = Field(gt=0, description="End [s].")
