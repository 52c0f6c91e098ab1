"""What a flow record counts: bytes and packets, of one direction or of both.

Counters of packets that arrive (1, 2) count the flow; where they are absent or zero, those of
packets that leave (23, 24) do. Firewalls count what the initiator and the responder sent (231, 232;
298, 299), and a biflow (RFC 5103) has the counters of its reverse direction. Such a record is two:
one for each direction that has bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from llmprism.ingest.bounds import as_int64
from llmprism.ingest.templates import Columns
from llmprism.numerics.arrays import Bools, Ints

NO_BYTES = "event of a firewall, which counts no bytes"
_BYTES = (("1", "23", "231"), ("85", "171"))  # counts since the last record, or of the whole flow
_PACKETS = (("2", "24", "298"), ("86", "172"))
_OF_INITIATOR = (("231", "1", "23"), ("298", "2", "24"))
_REVERSE_BYTES = (("232", "r1", "r23"), ("r85",))
_REVERSE_PACKETS = (("299", "r2", "r24"), ("r86",))


class Counts(NamedTuple):
    """Counters of records, and which cannot be read."""

    values: Ints
    bad: Bools


class Volume(NamedTuple):
    """Bytes and packets of each record in one direction."""

    bytes: Counts
    packets: Counts

    @property
    def is_empty(self) -> Bools:
        """Mark the records without bytes; what cannot be read may have some."""
        empty: Bools = ~self.bytes.bad & (self.bytes.values == 0)
        return empty


def forward(columns: Columns, count: int) -> Volume:
    """Return what the record's source sent."""
    if "232" in columns:
        sent, packets = _OF_INITIATOR
        return Volume(_first(columns, (sent,), count), _first(columns, (packets,), count))
    return Volume(_first(columns, _BYTES, count), _first(columns, _PACKETS, count))


def reverse(columns: Columns, count: int) -> Volume | None:
    """Return what the record's destination sent; None if the records do not count it."""
    if not any(name in columns for names in _REVERSE_BYTES for name in names):
        return None
    return Volume(_first(columns, _REVERSE_BYTES, count), _first(columns, _REVERSE_PACKETS, count))


def _first(columns: Columns, choices: tuple[tuple[str, ...], ...], count: int) -> Counts:
    """Return the first counter above zero of the first choice that the records have."""
    names = next((each for each in choices if any(one in columns for one in each)), ())
    values = np.zeros(count, dtype=np.int64)
    bad = np.ones(count, dtype=np.bool_)
    for name in (one for one in names if one in columns):
        more, unreadable = as_int64(columns[name])
        open_ = bad | (values == 0)
        take = open_ & ~unreadable & (bad | (more > 0))
        values, bad = np.where(take, more, values), bad & ~take
    return Counts(values, bad)
