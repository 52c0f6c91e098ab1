"""After how many bytes the records of a connection begin again: the bytes of a step.

Every step moves the same messages in the same order. So where a record begins, another one begins
when the bytes of one more step have moved, whatever time that takes, and however long ranks rest.
The same holds for two or three steps, for micro-batches that move the same messages, and for some
layers; for other numbers of bytes only by chance. Where an exporter bridges a silence, one begin is
missing, and the others are where they were.

Begins are counted in bins of bytes. Their autocorrelation shows all distances at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.methods.prism.cycles.cycles import Traffic
from llmprism.methods.prism.parameters import FEWEST, MOSTLY, NEARLY
from llmprism.numerics.arrays import Codes, Floats, Ints, order_in_groups

BIN = 0.03  # of a message: begins as near as that are the same, but for headers that vary
MOST_BINS = 1 << 22  # of a connection: arrays of 32 MiB
MOST_HOPS = 2  # connections that are read: those of a class move the same
RECORDS = 5  # of a part: fewer are alike by chance
SHOWS = 0.6  # share of records that begin again after the bytes of a step, although some are joined
WHOLE = 0.8  # share of records that do, if none is lost or joined; chance is taken off
EVALUATED = 0.4  # of the same, if an evaluation comes between some of the steps


@dataclass(frozen=True)
class Hop:
    """One connection.

    Attributes
    ----------
    own : its records in the traffic, in order of start.
    before : bytes before each record, and all bytes at the end.
    rest_ns : silence before each record [ns], 0 or less if there is none.
    """

    own: Ints
    before: Floats
    rest_ns: Floats


@dataclass(frozen=True)
class RepeatedBytes:
    """How often records of the connections of a class begin again, by the bytes in between.

    Everything is computed when it is needed, and once.
    """

    traffic: Traffic

    @cached_property
    def hops(self) -> Sequence[Hop]:
        """The connections, which move the same messages; the first one moves most."""
        return sorted(_hops_of(self.traffic), key=lambda hop: -hop.before[-1])[:MOST_HOPS]

    @cached_property
    def bin_bytes(self) -> float:
        """Bytes of a bin."""
        message = float(np.median(np.diff(self.hop.before)))
        return max(BIN * message, float(self.hop.before[-1]) / MOST_BINS)

    @property
    def hop(self) -> Hop:
        """The connection whose bytes count."""
        return self.hops[0]

    @cached_property
    def again(self) -> Floats:
        """Share of records after which another one begins, less chance, by the bins in between."""
        bins = int(float(self.hop.before[-1]) / self.bin_bytes) + 1
        both, begun = np.zeros(bins), np.zeros(bins)
        for hop in self.hops:
            begins = np.zeros(bins)
            begins[(hop.before[:-1] / self.bin_bytes).astype(np.int64)] = 1.0
            near = np.minimum(np.convolve(begins, np.ones(3), "same"), 1.0)
            until = np.cumsum(begins)[::-1]
            both += _correlated(begins, near) - near.mean() * until
            begun += until
        return both / np.maximum(begun, 1.0)

    def shows(self) -> bool:
        """Whether most records begin again at some distance, and sizes differ."""
        return not self._has_one_size() and self._largest() >= SHOWS

    def denies(self, parts: Codes, *, evaluated: bool) -> bool:
        """Whether nearly all records begin again after more bytes, and not after those of a part.

        ``parts`` is the part of each record of the class. If records were lost, or joined in some
        steps, nothing is denied.
        """
        if self._has_one_size():
            return False
        moved = np.bincount(parts[self.hop.own], np.diff(self.hop.before))
        least = max(int(np.rint(np.median(moved[moved > 0]) / self.bin_bytes)) - 1, 0)
        most = int(float(self.hop.before[-1]) / self.bin_bytes / FEWEST) + 1
        often = float(self.again[least : least + 3].max(initial=0.0))
        longer = float(self.again[least:most].max(initial=0.0))
        enough = (EVALUATED if evaluated else MOSTLY) * longer
        return longer >= WHOLE and often < enough

    def _has_one_size(self) -> bool:
        """Whether records have one size: they then begin again after any number of them."""
        size = np.diff(self.hop.before)
        usual = float(np.median(size))
        return bool((np.abs(size - usual) <= BIN * usual).mean() >= WHOLE)

    def least(self) -> float:
        """The least share of all bytes after which nearly as many records begin again as ever."""
        first, inner = self._inner()
        enough = int(np.argmax(inner >= NEARLY * inner.max(initial=0.0)))
        peak = enough + int(np.argmax(inner[enough : enough + 3]))
        return (first + peak) * self.bin_bytes / float(self.hop.before[-1])

    def _largest(self) -> float:
        return float(self._inner()[1].max(initial=0.0))

    def _inner(self) -> tuple[int, Floats]:
        """The least distance that counts, in bins, and the shares from there to the largest."""
        bins = float(self.hop.before[-1]) / self.bin_bytes
        first = max(int(bins * RECORDS / self.hop.own.size), 1)
        return first, self.again[first : int(bins / FEWEST) + 1]


def _hops_of(traffic: Traffic) -> list[Hop]:
    """The connections of a class."""
    connection = traffic.couple.astype(np.int64) * 2 + traffic.forth
    order = order_in_groups(connection, traffic.start_ns).astype(np.int64)
    opens = np.flatnonzero(np.diff(connection[order], prepend=-1))
    hops = []
    for own in np.split(order, opens[1:]):
        moved = np.cumsum(traffic.size[own], dtype=np.float64)
        ended = np.maximum.accumulate(traffic.end_ns[own])
        rest_ns = np.zeros(own.size)
        rest_ns[1:] = traffic.start_ns[own[1:]] - ended[:-1]
        hops.append(Hop(own, np.concatenate(([0.0], moved)), rest_ns))
    return hops


def _correlated(begins: Floats, near: Floats) -> Floats:
    """How many of the ``begins`` have a one in ``near``, for each number of bins in between."""
    padded = 1 << (2 * begins.size - 1).bit_length()
    spectrum = np.fft.rfft(near, padded) * np.fft.rfft(begins, padded).conj()
    counts: Floats = np.rint(np.fft.irfft(spectrum, padded)[: begins.size])
    return counts
