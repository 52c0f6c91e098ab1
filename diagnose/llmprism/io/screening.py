"""Records that are set aside, because they are impossible or have unknown addresses.

- *Times and sizes.* A null, a negative size, an end before the start, a time or a size beyond
  2**61 (sums and differences would not fit 64 bits).
- *Addresses.* None, one that is not in the topology, or the same at both ends: a NIC does
  not send to itself through a switch.
- *Rate.* More than ten times the bytes that the fastest link of the topology carries in the
  record's duration, with a tolerance of two ticks of the exporter's clock, plus 1 MiB for records
  of single packets and small bursts. Framing, rounding and inaccurate rates do not cause a
  factor of ten; times in another unit cause a factor of a thousand. If no rate is known,
  the fastest link is assumed to have 800 Gbit/s. Counts of a sampling exporter are estimates, and
  may exceed this by the sampling factor.
- *Repetitions.* A record equal to another in every column is counted. It is set aside only
  if both ports are known: an exporter has one entry for each set of addresses and ports, so
  the record was exported twice or by two exporters. Without ports it may be a
  parallel connection. On a coarse clock, several short messages may begin and end in one tick, so
  that their records are equal: they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from llmprism.io.clock import clock_tick_ns
from llmprism.numerics.arrays import Bools, Ints

NULL, UNKNOWN = -2, -1  # endpoint codes without an endpoint
REPEATED = "repeats another record with the same ports"
TOO_FAST = "faster than any link could carry it"

_LARGEST = 2**61
_FASTEST_GBPS = 800.0  # of a port in service, if the topology has none
_MARGIN = 10.0
_BURST_BYTES = float(2**20)
_FINE_NS = 1000  # tick of a clock: no two records of a connection begin in one

Columns = Mapping[str, np.ndarray[Any, Any]]


def faults(
    null: Bools, columns: Columns, fastest_gbps: float, sampling: float
) -> tuple[Bools, dict[str, int]]:
    """Mark the rows to set aside, and count them by the first reason that applies.

    ``null`` marks the rows that lack a time or a size.
    """
    src, dst = columns["src"], columns["dst"]
    start, end, size = columns["start_ns"], columns["end_ns"], columns["bytes"]
    reasons = {
        "null time or size": null,
        "null address": (src == NULL) | (dst == NULL),
        "address unknown to the topology": (src == UNKNOWN) | (dst == UNKNOWN),
        "source and destination are the same": src == dst,
        "time or size beyond 2^61": _beyond(start) | _beyond(end) | (size > _LARGEST),
        "ends before it starts": end < start,
        "negative size": size < 0,
    }
    bad = np.zeros(null.size, dtype=np.bool_)
    counts: dict[str, int] = {}
    for reason, rows in reasons.items():
        _set_aside(rows, reason, bad, counts)
    fast = _too_fast(start, end, size, ~bad, fastest_gbps, sampling)
    _set_aside(fast, TOO_FAST, bad, counts)
    return bad, counts


def null_rows(columns: Sequence[pa.ChunkedArray]) -> Bools:
    """Mark the rows in which one of the ``columns`` has no value."""
    null = np.zeros(len(columns[0]), dtype=np.bool_)
    for column in columns:
        if column.null_count:
            null |= column.is_null().to_numpy()
    return null


def repetitions(columns: Columns) -> Bools:
    """Mark every row that equals the one before it; rows are in canonical order."""
    same = np.zeros(columns["start_ns"].size, dtype=np.bool_)
    same[1:] = True
    for column in columns.values():
        same[1:] &= column[1:] == column[:-1]
    return same


def has_ports(columns: Columns) -> Bools | bool:
    """Mark the rows whose ports are known."""
    if not {"src_port", "dst_port"} <= columns.keys():
        return False
    known: Bools = (columns["src_port"] >= 0) & (columns["dst_port"] >= 0)
    return known


def take_time(columns: Columns) -> Bools:
    """Mark the rows that no other record of the same connection can equal, as far as times show.

    Messages of one connection follow each other, so that only one can be moving at the end of a
    tick of the clock.
    """
    start, end = columns["start_ns"], columns["end_ns"]
    fine = clock_tick_ns(start, end) <= _FINE_NS
    shown: Bools = (end > start) | fine
    return shown


def _set_aside(rows: Bools, reason: str, bad: Bools, counts: dict[str, int]) -> None:
    fresh = int(np.count_nonzero(rows & ~bad))
    if fresh:
        counts[reason] = fresh
        bad |= rows


def _beyond(times: Ints) -> Bools:
    found: Bools = (times > _LARGEST) | (times < -_LARGEST)
    return found


def _too_fast(
    start: Ints, end: Ints, size: Ints, sound: Bools, fastest_gbps: float, sampling: float
) -> Bools:
    fast = np.zeros(start.size, dtype=np.bool_)
    rows = np.flatnonzero(sound & (size > _BURST_BYTES))
    if rows.size == 0:
        return fast
    tick = clock_tick_ns(start[sound], end[sound])
    gbps = fastest_gbps if np.isfinite(fastest_gbps) else _FASTEST_GBPS
    carried = (end[rows] - start[rows] + 2.0 * tick) * gbps / 8.0
    fast[rows] = size[rows] > sampling * (_MARGIN * carried + _BURST_BYTES)
    return fast
