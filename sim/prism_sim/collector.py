"""What the switches export: transfers on the wire, cut into flow records.

The trainer's library posts *messages*; on the wire a message is a train of bursts: one
burst for a point-to-point message, one a chunk for a ring. A record never holds more than
one message, and ends where the wire is silent for longer than the idle gap. Times are those
at the source's leaf switch (ingress), on the collector's clock. Bytes are the message's.

Records stream to Parquet in pieces, so memory does not grow with simulated time.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prism_sim.cluster import core
from prism_sim.cluster.routes import ROCE_PORT, UDP, Router
from prism_sim.cluster.state import grown
from prism_sim.cluster.templates import HIDDEN
from prism_sim.scenario.models import Collector as CollectorModel
from prism_sim.streaming import TableStream

PIECE = 1 << 18
"""Records gathered before they are written: a few tens of megabytes."""

_NAME = pa.dictionary(pa.int32(), pa.string())
FLOWS = pa.schema(
    [
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("src", _NAME),
        ("dst", _NAME),
        ("bytes", pa.int64()),
        ("src_port", pa.int32()),
        ("dst_port", pa.int32()),
        ("protocol", pa.int32()),
        ("path", _NAME),
    ]
)
"""Arrow schema of ``flows.parquet`` as the simulator writes it."""


TRAIN = np.dtype(
    [
        ("start_ns", "f8"),  # begin of the first regular burst
        ("burst_ns", "f8"),  # how long one burst lasts; at most the period
        ("period_ns", "f8"),  # from the begin of one burst to that of the next
        ("bursts", "i8"),  # regular ones
        ("burst_bytes", "i8"),
        ("early_bursts", "i8"),  # sent in a row before the regular ones
        ("early_start_ns", "f8"),
        ("early_end_ns", "f8"),
        ("route", "i4"),  # number of the route; HIDDEN if no switch sees it
    ]
)
"""The bursts of one message on one route."""


class Collector:
    """Sees trains and single flows, and writes them as records to one Parquet file.

    Parameters
    ----------
    model : how records are cut.
    router : knows what a route's number stands for.
    epoch_ns : time zero of the simulation on the collector's clock.
    path : the file to write.

    Attributes
    ----------
    records : how many records have been seen.
    bytes_by_route : bytes recorded so far on each route.
    """

    def __init__(self, model: CollectorModel, router: Router, epoch_ns: int, path: Path) -> None:
        self._gap_ns = model.idle_gap_us * 1e3
        self._router = router
        self._epoch_ns = epoch_ns
        self._addresses = pa.array(router.layout.addresses, pa.string())
        self._held: list[NDArray[np.void]] = []
        self._n_held = 0
        self._trains = np.empty(1024, TRAIN)
        self._n_trains = 0
        self.records = 0
        self.bytes_by_route = np.zeros(0, np.int64)
        metadata = {
            "observation_point": "ingress",
            "idle_gap_ns": str(round(self._gap_ns)),
        }
        self._schema = FLOWS.with_metadata(metadata)
        self._stream = TableStream(path, self._schema)

    def __enter__(self) -> Collector:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.take(np.empty(0, core.RECORD))
            self._write()
        self._stream.close()

    def see(self, trains: NDArray[np.void]) -> None:
        """Note ``trains`` (dtype TRAIN), to be cut into records before anything is written."""
        end = self._n_trains + len(trains)
        if end > len(self._trains):
            self._trains = grown(self._trains, 2 * end)
        self._trains[self._n_trains : end] = trains
        self._n_trains = end

    def take(self, records: NDArray[np.void]) -> None:
        """Add the records of single flows (dtype ``core.RECORD``), and of trains noted so far."""
        for rows in (records, *self._cut_trains()):
            self._held.append(rows)
            self._n_held += len(rows)
            self.records += len(rows)
        if self._n_held >= PIECE:
            self._write()

    def _cut_trains(self) -> list[NDArray[np.void]]:
        trains = self._trains[: self._n_trains]
        self._n_trains = 0
        return cut(trains[trains["route"] != HIDDEN], self._gap_ns)

    def _write(self) -> None:
        """Write what is held, in order of end, as a collector would receive it."""
        if not self._held:
            return
        rows = np.concatenate(self._held)
        self._held, self._n_held = [], 0
        rows = rows[np.lexsort((rows["route"], rows["start_ns"], rows["end_ns"]))]
        self._count(rows)
        table = self._table(rows)
        self._stream.write(lambda: table)

    def _count(self, rows: NDArray[np.void]) -> None:
        total = np.zeros(len(self._router.routes), np.int64)
        total[: len(self.bytes_by_route)] = self.bytes_by_route
        np.add.at(total, rows["route"], rows["bytes"])
        self.bytes_by_route = total

    def _table(self, rows: NDArray[np.void]) -> pa.Table:
        routes, route = self._router.routes, rows["route"]
        columns: dict[str, Any] = {
            "start_ns": rows["start_ns"] + self._epoch_ns,
            "end_ns": rows["end_ns"] + self._epoch_ns,
            "src": _names(np.array(routes.src), route, self._addresses),
            "dst": _names(np.array(routes.dst), route, self._addresses),
            "bytes": rows["bytes"],
            "src_port": np.array(routes.src_port, np.int32)[route],
            "dst_port": np.full(len(rows), ROCE_PORT, np.int32),
            "protocol": np.full(len(rows), UDP, np.int32),
            "path": _names(np.array(routes.path), route, pa.array(self._router.paths)),
        }
        return pa.table(columns, schema=self._schema)


def cut(trains: NDArray[np.void], gap_ns: float) -> list[NDArray[np.void]]:
    """Records (dtype ``core.RECORD``) of ``trains``, ended by silence of more than ``gap_ns``.

    A train that never rests for so long is one record, any other is one record a burst. What was
    sent early belongs to the first record, if it ended no longer than that before it.
    """
    early = trains["early_bursts"] > 0
    joined = early & (trains["start_ns"] - trains["early_end_ns"] <= gap_ns)
    alone = trains[early & ~joined]
    before = np.empty(len(alone), core.RECORD)
    before["start_ns"] = np.rint(alone["early_start_ns"])
    before["end_ns"] = np.rint(alone["early_end_ns"])
    before["bytes"] = alone["early_bursts"] * alone["burst_bytes"]
    before["route"] = alone["route"]
    return [before, _regular(trains, joined, gap_ns)]


def _regular(
    trains: NDArray[np.void], joined: NDArray[np.bool_], gap_ns: float
) -> NDArray[np.void]:
    """Records of the regular bursts; those of ``joined`` trains begin with what was early."""
    whole = trains["period_ns"] - trains["burst_ns"] <= gap_ns
    count = np.where(whole, 1, trains["bursts"])
    of = np.repeat(np.arange(len(count)), count)
    train = trains[of]
    number = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    begin = train["start_ns"] + number * train["period_ns"]
    held = np.where(whole[of], train["bursts"], 1)
    first = joined[of] & (number == 0)
    rows = np.empty(len(of), core.RECORD)
    rows["start_ns"] = np.rint(np.where(first, train["early_start_ns"], begin))
    rows["end_ns"] = np.rint(begin + (held - 1) * train["period_ns"] + train["burst_ns"])
    rows["bytes"] = (held + first * train["early_bursts"]) * train["burst_bytes"]
    rows["route"] = train["route"]
    return rows


def _names(of_route: NDArray[np.int64], route: NDArray[np.int32], names: pa.Array) -> pa.Array:
    """The names that routes lead to, dictionary-encoded."""
    return pa.DictionaryArray.from_arrays(pa.array(of_route[route].astype(np.int32)), names)
