"""Records that no flow table can hold are set aside here, counted by reason.

The diagnoser screens again with what the topology knows (:mod:`llmprism.io.screening`); this
screen needs none.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.bounds import EARLIEST_NS, LARGEST
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.numerics.arrays import Bools

OUTSIDE = "outside the time asked for"
TUNNELS = {4789: "VXLAN", 8472: "VXLAN", 6081: "GENEVE"}
"""UDP ports of overlays: a switch sees their outer headers only."""
_UDP = 17


def screen(table: pa.Table, options: Options, notes: Notes) -> pa.Table:
    """Return the records that hold; count the others in ``notes``."""
    keep = np.ones(table.num_rows, dtype=np.bool_)
    start, end = _filled(table["start_ns"]), _filled(table["end_ns"])
    size = _filled(table["bytes"])
    reasons: dict[str, Bools] = {
        "no address, or one that cannot be read": _nulls(table, "src", "dst"),
        "no time, or one that cannot be read": _nulls(table, "start_ns", "end_ns"),
        "no size, or one that cannot be read": _nulls(table, "bytes"),
        "time or size beyond 2^61": (np.abs(start) > LARGEST)
        | (np.abs(end) > LARGEST)
        | (size > LARGEST),
        "ends before it starts": end < start,
        "negative size": size < 0,
        OUTSIDE: _outside(start, options),
    }
    for reason, bad in reasons.items():
        notes.drop(reason, int(np.count_nonzero(bad & keep)))
        keep &= ~bad
    table = table if keep.all() else table.filter(pa.array(keep))
    _remark_tunnels(table, notes)
    _remark_unit(table, notes)
    return table


def _remark_unit(table: pa.Table, notes: Notes) -> None:
    """Say so if times are before 1990, and would be those of a wall clock in a larger unit."""
    starts = _filled(table["start_ns"])
    middle = float(np.median(starts)) if starts.size else 0.0
    for factor in (1_000, 1_000_000, 1_000_000_000):
        if 0 < middle < EARLIEST_NS <= middle * factor <= LARGEST:
            notes.remark(
                f"times are before 1990; in a unit that is {factor:,} times as long they would be "
                f"of {np.datetime64(int(middle * factor), 'ns').astype('datetime64[Y]')}: name the "
                "unit with --time-unit, and the columns with --map, if their names say another"
            )


def _remark_tunnels(table: pa.Table, notes: Notes) -> None:
    """Say whose addresses the records of an overlay have."""
    is_udp = pc.fill_null(pc.equal(table["protocol"], _UDP), False)
    ports = table["dst_port"].filter(is_udp).unique().to_pylist()
    for name in sorted({TUNNELS[port] for port in ports if port in TUNNELS}):
        notes.remark(
            f"{name}: records have the addresses of the ends of tunnels, so the topology must list "
            "those, and all that one tunnel carries is one pair; for the addresses inside, record "
            "on the hosts, where packets enter the tunnel"
        )


def _filled(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    values: np.ndarray[tuple[int], np.dtype[np.int64]] = pc.fill_null(column, 0).to_numpy()
    return values


def _nulls(table: pa.Table, *names: str) -> Bools:
    bad = np.zeros(table.num_rows, dtype=np.bool_)
    for name in names:
        bad |= table[name].is_null().to_numpy()
    return bad


def _outside(start: np.ndarray[tuple[int], np.dtype[np.int64]], options: Options) -> Bools:
    bad = np.zeros(start.size, dtype=np.bool_)
    if options.from_ns is not None:
        bad |= start < max(-LARGEST, min(options.from_ns, LARGEST))
    if options.to_ns is not None and options.to_ns <= LARGEST:
        bad |= start >= max(-LARGEST, options.to_ns)
    return bad
