"""Traffic of several connections on one line, sorted by start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.numerics.arrays import Bools, Codes, Ints


@dataclass(frozen=True)
class Traffic:
    """Records of one class on one line, sorted by start; equal length arrays.

    Attributes
    ----------
    row : row in the flow table.
    start_ns, end_ns : [ns].
    size : bytes.
    couple : number of the unordered pair of addresses, from 0.
    forth : whether the record goes from the pair's lower address to the higher.
    """

    row: Codes
    start_ns: Ints
    end_ns: Ints
    size: Ints
    couple: Codes
    forth: Bools

    def __len__(self) -> int:
        return int(self.row.size)

    def rests_ns(self) -> Ints:
        """From the last end before each record but the first to its start [ns]; may be < 0."""
        gap: Ints = self.start_ns[1:] - np.maximum.accumulate(self.end_ns)[:-1]
        return gap
