"""The context that the stages of a collector share.

Bytes are counted by 5-tuple, before any effect can lose or rename a record. Two amounts are
separate: bytes that jobs and background traffic sent, and bytes that telemetry effects added.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prism_sim.cluster.state import grown
from prism_sim.collector.job_hosts import JobHosts
from prism_sim.collector.keyed import Words, hashed, uniform
from prism_sim.collector.rows import Rows
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


KEYS = ["job", "src", "dst", "kind"]


class Amounts(NamedTuple):
    """Bytes by number of the 5-tuple."""

    sent: NDArray[np.int64]
    added: NDArray[np.int64]


class Totals:
    """Bytes of all traffic so far.

    Parameters
    ----------
    tuples : the addresses and owners of 5-tuples.
    """

    def __init__(self, tuples: Tuples) -> None:
        self._tuples = tuples
        self._amounts = Amounts(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def count_sent(self, rows: Rows) -> None:
        """Count ``rows`` as sent by their owners: payload without headers."""
        self._grow()
        np.add.at(self._amounts.sent, rows["tuple"], rows["payload"])

    def count_added(self, rows: Rows) -> None:
        """Count ``rows`` as added by an effect: the payload, or whole packets without any."""
        self._grow()
        size = np.where(rows["payload"] > 0, rows["payload"], rows["bytes"])
        np.add.at(self._amounts.added, rows["tuple"], size)

    def pairs(self) -> pd.DataFrame:
        """Job, addresses, kind and bytes between known addresses, sorted.

        Traffic that effects added is listed only where nothing was sent: the acknowledgements of a
        connection do not change its bytes.
        """
        sent, added = (self._summed(amounts) for amounts in self._amounts)
        both = pd.concat([sent, added]).drop_duplicates(KEYS)
        return both.sort_values(KEYS, ignore_index=True)

    def _summed(self, amounts: NDArray[np.int64]) -> pd.DataFrame:
        tuples = self._tuples
        rows = [
            (owner[0], *tuples.nics(number), owner[1], int(amounts[number]))
            for number in np.flatnonzero(amounts).tolist()
            if (owner := tuples.owners[number]) is not None and tuples.is_inside(number)
        ]
        frame = pd.DataFrame(rows, columns=[*KEYS, "bytes"]).astype({"bytes": np.int64})
        return frame.groupby(KEYS, as_index=False, sort=True).sum()

    def _grow(self) -> None:
        if len(self._tuples) > len(self._amounts.sent):
            sent, added = (grown(amounts, 2 * len(self._tuples)) for amounts in self._amounts)
            self._amounts = Amounts(sent, added)
