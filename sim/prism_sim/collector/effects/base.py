"""What every effect has in common: a stage that rows of records pass through.

An effect is the scenario's model of one thing that happens to records, in a file of its own.
Its ``stage`` takes a batch of rows and returns another; it draws by the identity of a row,
never in turn, so that no effect disturbs the draws of another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.collector.keyed import Words, hashed, uniform
from prism_sim.collector.rows import Rows
from prism_sim.collector.totals import Totals
from prism_sim.draws import Draws
from prism_sim.scenario.base import Closed, Remarks
from prism_sim.scenario.setting import Setting

if TYPE_CHECKING:
    from prism_sim.collector.job_hosts import JobHosts
    from prism_sim.collector.tuples import FiveTuple, Tuples

Stage = Callable[[Rows], Rows]


@dataclass
class Scene:
    """What stages may know.

    Attributes
    ----------
    tuples, draws : 5-tuples, and where randomness comes from.
    epoch_ns : time zero of the simulation on the collector's clock.
    job_hosts : the hosts of each job, once more for each restart.
    now_ns : how far the simulation has come.
    totals : bytes by 5-tuple, of jobs and of what effects have added.
    """

    tuples: Tuples
    draws: Draws
    epoch_ns: int
    job_hosts: list[JobHosts] = field(default_factory=list)
    now_ns: int = 0
    totals: Totals = field(init=False)

    def __post_init__(self) -> None:
        self.totals = Totals(self.tuples)

    def uniform(self, purpose: str, rows: Rows) -> NDArray[np.float64]:
        """A number in (0, 1) a row, for one purpose."""
        return self.chance(purpose, rows["id"])

    def chance(self, purpose: str, ids: Words) -> NDArray[np.float64]:
        """A number in (0, 1) an identity, for one purpose."""
        return uniform(self.draws, purpose, ids)

    def renamed(
        self, rows: Rows, which: NDArray[np.bool_], change: Callable[[FiveTuple], FiveTuple]
    ) -> Rows:
        """``rows``, those of ``which`` under other addresses and ports; draws stay as they are."""
        found, where = np.unique(rows["tuple"][which], return_inverse=True)
        tuples = self.tuples
        other = [tuples.alias(number, change(tuples.tuple_of(number))) for number in found.tolist()]
        rows["tuple"][which] = np.array(other, np.int32)[where]
        for name in ("src", "dst"):
            rows[name][which] = tuples.column(name)[rows["tuple"][which]]
        return rows

    def identity(self, rows: Rows) -> Words:
        """What tells a row from all others: 5-tuple, place of observation, begin, size."""
        key = self.tuples.column("key")[rows["tuple"]]
        return hashed(key, rows["point"], rows["start_ns"], rows["bytes"])


class EffectBase(Closed, ABC):
    """One thing that happens to records."""

    kind: str
    after_cutting: ClassVar[bool] = False
    counts: ClassVar[bool] = False  # whether the table gains payload and packets
    delays: ClassVar[bool] = False  # whether records arrive after they end
    needs_packets: ClassVar[bool] = False  # whether it makes sense only where packets are counted

    @property
    def hindsight(self) -> bool:
        """Whether it must see a whole run at once, which then is held in memory."""
        return False

    @abstractmethod
    def stage(self, scene: Scene) -> Stage:
        """What rows pass through."""

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
