"""Bytes by pair of addresses: the only count behind the truth's ``pairs``.

Bytes are counted by 5-tuple, before any effect can lose or rename a record. Two amounts are
separate: bytes that jobs and background traffic sent, and bytes that telemetry effects added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prism_sim.cluster.state import grown
from prism_sim.collector.rows import Rows
from prism_sim.collector.tuples import Tuples

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
