"""What the stages of a collector may know of the world around the rows."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from prism_sim.collector.job_hosts import JobHosts
from prism_sim.collector.keyed import Words, hashed, uniform
from prism_sim.collector.rows import Rows
from prism_sim.collector.totals import Totals
from prism_sim.collector.tuples import FiveTuple, Tuples
from prism_sim.draws import Draws

Stage = Callable[[Rows], Rows]
"""Takes a batch of rows, and returns what goes on."""


@dataclass
class Scene:
    """What stages may know.

    Attributes
    ----------
    tuples, draws : 5-tuples, and where randomness comes from.
    epoch_ns : time zero of the simulation on the collector's clock.
    job_hosts : the hosts of each job, once more for each restart.
    now_ns : up to which time rows have come [simulation ns].
    is_over : whether no further batch will come.
    totals : bytes by 5-tuple, of jobs and of what effects have added.
    holders : whatever keeps rows for a later batch.
    """

    tuples: Tuples
    draws: Draws
    epoch_ns: int
    job_hosts: list[JobHosts] = field(default_factory=list)
    now_ns: int = 0
    is_over: bool = True
    totals: Totals = field(init=False)
    holders: list[Sized] = field(default_factory=list)

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
