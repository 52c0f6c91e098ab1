"""The context that the stages of a collector share."""

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
"""Takes a batch of rows and returns the batch for the next stage."""


@dataclass
class Scene:
    """Context of the stages.

    Attributes
    ----------
    tuples, draws : 5-tuples, and the source of random numbers.
    epoch_ns : time zero of the simulation on the collector's clock.
    job_hosts : the hosts of each job; one more entry for each restart.
    now_ns : time that rows have reached [simulation ns].
    is_over : whether no further batch will come.
    totals : bytes by 5-tuple, of jobs and of the rows that effects have added.
    holders : stages that keep rows for a later batch.
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
        """A number in (0, 1) for each row, for one purpose."""
        return self.chance(purpose, rows["id"])

    def chance(self, purpose: str, ids: Words) -> NDArray[np.float64]:
        """A number in (0, 1) for each identity, for one purpose."""
        return uniform(self.draws, purpose, ids)

    def renamed(
        self, rows: Rows, which: NDArray[np.bool_], change: Callable[[FiveTuple], FiveTuple]
    ) -> Rows:
        """``rows``, those of ``which`` with other addresses and ports; draws do not change."""
        found, where = np.unique(rows["tuple"][which], return_inverse=True)
        tuples = self.tuples
        other = [tuples.alias(number, change(tuples.tuple_of(number))) for number in found.tolist()]
        rows["tuple"][which] = np.array(other, np.int32)[where]
        for name in ("src", "dst"):
            rows[name][which] = tuples.column(name)[rows["tuple"][which]]
        return rows

    def identity(self, rows: Rows) -> Words:
        """The identity of a row: 5-tuple, observation point, start, size."""
        key = self.tuples.column("key")[rows["tuple"]]
        return hashed(key, rows["point"], rows["start_ns"], rows["bytes"])
