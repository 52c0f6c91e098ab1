"""The collector: transfers on the wire are cut into flow records.

The trainer's library posts *messages*; on the wire a message is a train of bursts: one
burst for a point-to-point message, one per chunk for a ring. A record never holds more than
one message, and ends where the wire is silent for longer than the idle gap. Times are those
at the source's leaf switch (ingress), on the collector's clock. Bytes are the message's.

Records are written to Parquet in batches. Effects that need rows in order of their start hold
them for a bounded time (:mod:`prism_sim.collector.delay`), so memory does not grow with simulated
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from prism_common.compiled import compiled
from prism_sim.cluster.routes import Router
from prism_sim.cluster.state import grown
from prism_sim.cluster.templates import HIDDEN
from prism_sim.cluster.wire import TRAIN, Trains
from prism_sim.collector.config import CollectorConfig
from prism_sim.collector.counters import PortCounters
from prism_sim.collector.cutting import Cutter
from prism_sim.collector.delay import HORIZON_NS, DelayLine
from prism_sim.collector.job_hosts import JobHosts
from prism_sim.collector.rows import COUNTED, FLOWS, NO_PATH, ROW, Rows
from prism_sim.collector.scene import Scene
from prism_sim.collector.tuples import Tuples
from prism_sim.draws import Draws
from prism_sim.streaming import Streaming

PIECE = 1 << 18
"""Records gathered before they are written: a few tens of megabytes."""

STRIDE_NS = 5_000_000_000
"""Simulated time processed per batch where rows need an order: 5 s."""

PORTS = ("src_port", "dst_port", "protocol")
"""Columns that a record has from its 5-tuple."""


class Collector(Streaming):
    """Observes transfers on the wire and writes them as records to one Parquet file.

    Parameters
    ----------
    model : how records are cut.
    router : resolves route numbers.
    epoch_ns : time zero of the simulation on the collector's clock.
    path : the file to write.
    draws : random numbers for effects.
    hosts : of each job, for control traffic and for the transport of its training traffic.

    Attributes
    ----------
    records : number of records so far.
    """

    def __init__(
        self,
        model: CollectorConfig,
        router: Router,
        epoch_ns: int,
        path: Path,
        draws: Draws | None = None,
        hosts: Sequence[JobHosts] = (),
    ) -> None:
        self._gap_ns = model.idle_gap_us * 1e3
        self._router = router
        self._epoch_ns = epoch_ns
        draws = draws or Draws(0)
        transports = {job.job: job.transport for job in hosts}
        self._tuples = Tuples(router, draws, transports, model.transport or "roce")
        scene = Scene(self._tuples, draws, epoch_ns, list(hosts))
        effects = model.in_order()
        self._before = [effect.stage(scene) for effect in effects if not effect.after_cutting]
        self._after = [effect.stage(scene) for effect in effects if effect.after_cutting]
        lookbacks = [effect.lookback_ns for effect in effects]
        needs_order = any(ns is not None for ns in lookbacks)
        self._delay_ns, self._stride_ns = (HORIZON_NS, STRIDE_NS) if needs_order else (0, 0)
        self._settled_after_ns = HORIZON_NS + sum(ns or 0 for ns in lookbacks)
        self._reported, self._ordered = DelayLine(), DelayLine()
        scene.holders += [self._reported, self._ordered]
        scene.is_over = False
        self._cutter = Cutter(model, scene) if model.recuts else None
        self._is_staged = bool(effects) or model.recuts
        self._scene = scene
        self._counters = None
        if model.counters is not None:
            self._counters = PortCounters(model.counters, router, epoch_ns, draws)
        self._delays = any(effect.delays for effect in effects)
        self._held: list[Rows] = []
        self._n_held = 0
        self._trains = np.empty(1024, TRAIN)
        self._n_trains = 0
        self._now_ns = 0
        self.records = 0
        counted = COUNTED if any(effect.counts for effect in effects) else []
        fields = [*FLOWS, *(pa.field(name, kind) for name, kind in counted)]
        super().__init__(path, pa.schema(fields, metadata=model.metadata()))

    def _write_rest(self) -> None:
        self._pass(last=True)

    def observe(self, trains: Trains) -> None:
        """Add ``trains``, to be cut into records before the next write."""
        end = self._n_trains + len(trains)
        if end > len(self._trains):
            self._trains = grown(self._trains, 2 * end)
        self._trains[self._n_trains : end] = trains
        self._n_trains = end

    def advance(self, now_ns: int) -> None:
        """Process all observed trains; the simulation has reached ``now_ns``."""
        self._now_ns = now_ns
        self._pass()

    @property
    def held_rows(self) -> int:
        """Rows that all stages hold in memory at present."""
        return self._n_held + sum(len(holder) for holder in self._scene.holders)

    def keep_paths(self, now_ns: int) -> None:
        """Freeze the path of everything that started before ``now_ns``, before a reroute."""
        self._tuples.keep_paths(now_ns)
        self._router.keep_chosen(now_ns)

    def reroute(self, routes: Iterable[int]) -> None:
        """Use the new paths of these routes, and of control traffic, from now on."""
        self._tuples.reroute(routes)

    def job_restarts(self, job: str, start_ns: int, processes_since_ns: int) -> None:
        """Record that ``job`` has new processes, which start to train at ``start_ns``."""
        before = [hosts for hosts in self._scene.job_hosts if hosts.job == job]
        if before:
            self._scene.job_hosts.append(before[-1].after_restart(start_ns, processes_since_ns))

    def write_counters(self, path: Path) -> None:
        """Write the counters of all ports, if the scenario has a collector of them."""
        if self._counters is not None:
            self._counters.write(path)

    def pairs(self) -> pd.DataFrame:
        """Truth: bytes and kind of traffic of each pair of addresses."""
        return self._scene.totals.pairs()

    def _pass(self, last: bool = False) -> None:
        """Pass all observed rows through the chain of stages."""
        scene = self._scene
        self._reported.add(self._observed())
        until_ns = self._now_ns - (0 if last else self._delay_ns)
        if not last and until_ns < scene.now_ns + self._stride_ns:
            return
        scene.now_ns, scene.is_over = until_ns, last
        rows = self._reported.release(until_ns if self._delay_ns and not last else None)
        for stage in self._before:
            rows = stage(rows)
        if self._before:
            rows = rows[rows["exporter"] >= 0]  # switches beyond the topology export nothing here
        if self._delay_ns:
            self._ordered.add(rows)
            rows = self._ordered.release(None if last else until_ns - self._settled_after_ns)
        self._export(rows, last)

    def _export(self, rows: Rows, last: bool) -> None:
        """Cut ``rows`` into records, and hold or write the result."""
        if self._cutter is not None:
            rows = self._cutter.cut(rows, last)
        for stage in self._after:
            rows = stage(rows)
        self._held.append(rows)
        self._n_held += len(rows)
        self.records += len(rows)
        if self._n_held >= PIECE or last:
            self._write(last)

    def _observed(self) -> Rows:
        """The trains observed so far, cut at silences, and counted."""
        trains = self._trains[: self._n_trains]
        records = cut(trains[trains["route"] != HIDDEN], self._gap_ns)
        self._n_trains = 0
        if self._is_staged:  # in an order that does not depend on when each was observed
            records = records[np.lexsort((-records["end_ns"], records["start_ns"]))]
        tuples = self._tuples
        of = tuples.of_routes(records["route"], records["start_ns"])
        back = records["reverse"]
        of[back] = tuples.reverse(of[back])
        rows = np.zeros(len(records), ROW)
        rows["tuple"] = of
        for name in ("start_ns", "end_ns", "queued_ns", "bytes"):
            rows[name] = records[name]
        rows["payload"] = records["bytes"]
        rows["arrival_ns"] = records["end_ns"]
        for name, column in (("src", "src"), ("dst", "dst"), ("exporter", "leaf_in")):
            rows[name] = tuples.column(column)[of]
        rows["path"] = tuples.path_at(of, rows["start_ns"])
        if self._router.has_choice:
            rows["path"] = self._router.chosen_paths(
                records["route"], records["path"], rows["path"], rows["start_ns"]
            )
        if self._is_staged:
            rows["id"] = self._scene.identity(rows)
        self._scene.totals.count_sent(rows)
        if self._counters is not None:
            self._counters.count(rows)
        return rows

    def _write(self, last: bool) -> None:
        """Write the held rows that have arrived, in the order of arrival.

        Sorting and formatting happen in a background thread, with the present names.
        """
        rows = np.concatenate(self._held)
        late = np.full(len(rows), self._delays and not last)
        late &= rows["arrival_ns"] > self._scene.now_ns
        self._held, self._n_held = [rows[late]], int(late.sum())
        rows = rows[~late]
        if self._router.splits:
            rows["path"] = self._router.names.first_numbers(rows["path"])
        if len(rows):
            names = pa.array(self._tuples.names, pa.string())
            paths = pa.array(self._router.paths)
            ports = {name: self._tuples.column(name) for name in PORTS}
            self._stream.write(lambda: self._table(rows, names, paths, ports))

    def _table(
        self, rows: Rows, names: pa.Array, paths: pa.Array, ports: dict[str, NDArray[np.int64]]
    ) -> pa.Table:
        rows = rows[np.lexsort((rows["tuple"], rows["start_ns"], rows["arrival_ns"]))]
        columns: dict[str, Any] = {
            "start_ns": rows["start_ns"] + self._epoch_ns,
            "end_ns": rows["end_ns"] + self._epoch_ns,
            "src": pa.DictionaryArray.from_arrays(pa.array(rows["src"]), names),
            "dst": pa.DictionaryArray.from_arrays(pa.array(rows["dst"]), names),
            "path": pa.DictionaryArray.from_arrays(
                pa.array(rows["path"], mask=rows["path"] == NO_PATH), paths
            ),
            **{name: rows[name] for name in ("bytes", "payload", "packets")},
            **{name: of_tuple[rows["tuple"]].astype(np.int32) for name, of_tuple in ports.items()},
        }
        return pa.table({name: columns[name] for name in self._schema.names}, schema=self._schema)


# Cutting trains into records at silences.
#
# On the wire a message is one train of bursts or several (:mod:`prism_sim.cluster.wire`): one burst
# for a point-to-point message, one per chunk for a ring. Within a message, a record ends where the
# wire is silent for longer than the idle gap.

RECORD = np.dtype(
    [
        ("start_ns", "i8"),  # of the simulation
        ("end_ns", "i8"),
        ("queued_ns", "i8"),  # when a host's socket got it; 0 for its start
        ("bytes", "i8"),
        ("route", "i4"),
        ("path", "i4"),  # of those of the route, from 1; 0 without a choice
        ("reverse", "?"),
    ]
)
"""A part of a message that no silence interrupts."""


def cut(trains: Trains, gap_ns: float) -> NDArray[np.void]:
    """Records (dtype RECORD) of ``trains``, ended by silence of more than ``gap_ns``.

    A train without such a silence is one record, any other is one record per burst. A train
    that follows another extends that one's last record, if it starts soon enough after it.
    """
    whole = trains["period_ns"] - trains["burst_ns"] <= gap_ns
    records = np.zeros(int(np.where(whole, 1, trains["bursts"]).sum()), RECORD)
    return records[: _cut(trains, whole, gap_ns, records)]


@compiled
def _cut(trains: Trains, whole: NDArray[np.bool_], gap_ns: float, records: NDArray[np.void]) -> int:
    """Fill ``records``; returns how many there are."""
    n, silent_since_ns = 0, 0.0
    for i in range(len(trains)):
        train = trains[i]
        held = train["bursts"] if whole[i] else 1
        for first in range(0, train["bursts"], held):
            start_ns = train["start_ns"] + first * train["period_ns"]
            end_ns = start_ns + (held - 1) * train["period_ns"] + train["burst_ns"]
            goes_on = train["follows"] and first == 0 and start_ns - silent_since_ns <= gap_ns
            if not goes_on:
                records[n]["start_ns"] = np.rint(start_ns)
                records[n]["queued_ns"] = np.rint(train["queued_ns"])
                records[n]["route"] = train["route"]
                records[n]["path"] = train["path"]
                records[n]["reverse"] = train["reverse"]
                n += 1
            records[n - 1]["end_ns"] = np.rint(end_ns)
            records[n - 1]["bytes"] += held * train["burst_bytes"]
            silent_since_ns = end_ns
    return n
