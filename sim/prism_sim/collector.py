"""What the switches export: transfers on the wire, cut into flow records.

The trainer's library posts *messages*; on the wire a message is a train of bursts: one
burst for a point-to-point message, one a chunk for a ring. A record never holds more than
one message, and ends where the wire is silent for longer than the idle gap. Times are those
at the source's leaf switch (ingress), on the collector's clock. Bytes are the message's.

Records stream to Parquet in pieces, so memory does not grow with simulated time.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from prism_sim.cluster import core
from prism_sim.cluster.routes import ROCE_PORT, UDP, Router
from prism_sim.scenario.models import Collector as CollectorModel

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


class Train(NamedTuple):
    """Bursts of one message on one route.

    Attributes
    ----------
    route : number of the route.
    start_ns : when the first burst begins.
    period_ns : from the begin of one burst to that of the next.
    burst_ns : how long one burst lasts; at most the period.
    bursts : how many.
    burst_bytes : bytes of one burst.
    """

    route: int
    start_ns: int
    period_ns: float
    burst_ns: float
    bursts: int
    burst_bytes: int


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
        self.records = 0
        self.bytes_by_route = np.zeros(0, np.int64)
        metadata = {
            "observation_point": "ingress",
            "idle_gap_ns": str(round(self._gap_ns)),
        }
        self._schema = FLOWS.with_metadata(metadata)
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")

    def __enter__(self) -> Collector:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self._write()
        self._writer.close()

    def see(self, trains: Iterable[Train]) -> None:
        """Cut ``trains`` into records."""
        rows: list[tuple[int, int, int, int]] = []
        for train in trains:
            rows += self._cut(train)
        self.take(np.array(rows, core.RECORD))

    def take(self, records: NDArray[np.void]) -> None:
        """Add finished records (dtype ``core.RECORD``, simulation time)."""
        if len(records) == 0:
            return
        self._held.append(records)
        self._n_held += len(records)
        self.records += len(records)
        if self._n_held >= PIECE:
            self._write()

    def _cut(self, train: Train) -> Iterable[tuple[int, int, int, int]]:
        start = train.start_ns
        if train.period_ns - train.burst_ns <= self._gap_ns:
            end = start + round((train.bursts - 1) * train.period_ns + train.burst_ns)
            return [(start, end, train.bursts * train.burst_bytes, train.route)]
        return [
            (
                start + round(k * train.period_ns),
                start + round(k * train.period_ns + train.burst_ns),
                train.burst_bytes,
                train.route,
            )
            for k in range(train.bursts)
        ]

    def _write(self) -> None:
        """Write what is held, in order of end, as a collector would receive it."""
        if not self._held:
            return
        rows = np.concatenate(self._held)
        self._held, self._n_held = [], 0
        rows = rows[np.lexsort((rows["route"], rows["start_ns"], rows["end_ns"]))]
        self._count(rows)
        self._writer.write_table(self._table(rows))

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


def _names(of_route: NDArray[np.int64], route: NDArray[np.int32], names: pa.Array) -> pa.Array:
    """The names that routes lead to, dictionary-encoded."""
    return pa.DictionaryArray.from_arrays(pa.array(of_route[route].astype(np.int32)), names)
