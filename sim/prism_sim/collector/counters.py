"""Counters of switch ports, beside the flow records.

A switch counts the bytes of every port in both directions: of the leaves' ports to NICs, and, if
they are asked for, of the ports between switches. It renews what an exporter sees at its
own pace (the *refresh*), and an exporter reads it at another one, each switch at times of its own.
The bytes are those of the flow records on the port, before any effect: a transfer is even from its
first to its last packet, and all its bytes have been counted at its end.

What happens to counters in practice is added when they are written: words of 32 bits, resets, and
readings that are lost. They are kept in memory until then: 16 bytes for each port and reading.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from prism_common.compiled import compiled
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.collector.effects.base import Window
from prism_sim.collector.keyed import uniform
from prism_sim.collector.rows import Rows
from prism_sim.collector.splitting import Splitting
from prism_sim.draws import Draws
from prism_sim.scenario.base import Closed

Ints = NDArray[np.int64]
IN, OUT = 0, 1
"""Sides of a port: what its switch gets, and what it sends."""
MOST_BASE = 2**31
"""Bytes that a port had counted before the recording, at most."""


class Reset(Closed):
    """A restart of counters at zero."""

    at_s: float = Field(ge=0, le=1e8, description="When [s].")
    switch: str | None = None
    """Name of the leaf that restarts. Left out: all leaves."""


class CounterConfig(Closed):
    """How the counters of ports are read; they are written into ``counters.parquet``."""

    interval_s: float = Field(default=1.0, ge=1e-3, le=86_400)
    """Time between two readings [s]. Practice: 15 to 60 for SNMP, 1 to 10 for streaming telemetry,
    0.58 in the traces of Zhejiang Lab."""
    refresh_s: float | None = Field(default=None, ge=1e-3, le=3600)
    """Time between two new values at the switch [s]. Left out: always new. Practice: about 1 in the
    traces of Zhejiang Lab."""
    jitter: float = Field(default=0.05, ge=0, le=0.9)
    """Delay of a reading, as a share of the interval."""
    ports: Literal["nics", "all"] = "nics"
    """nics: the leaves' ports to NICs. all: also their ports to spines and those of spines to
    cores, called leaf000/spine01; parallel cables are one port."""
    bits: Literal[32, 64] = Field(default=64, description="Size of a counter; it wraps when full.")
    holes: tuple[Window, ...] = Field(default=(), description="Times without readings.")
    resets: tuple[Reset, ...] = Field(default=(), description="Restarts of counters.")


class PortsBetween:
    """The ports between switches, each named by its switch and the one above it.

    Attributes
    ----------
    names : such as leaf000/spine01.
    switch : number of the lower switch of each.
    """

    def __init__(self, router: Router) -> None:
        self._router, self._splitting = router, Splitting(router)
        topology, switches = router.layout.topology, router.layout.switches
        pairs = [
            np.stack((cables.lower, cables.upper), axis=1) - topology.leaves.first
            for cables in topology.cables[1:]
        ]
        ends: list[tuple[int, int]] = np.unique(np.concatenate(pairs), axis=0).tolist()
        self.names = [f"{switches[low]}/{switches[high]}" for low, high in ends]
        self.switch = np.array([low for low, _ in ends], np.int64)
        self._port = {
            (switches[low], switches[high]): number for number, (low, high) in enumerate(ends)
        }

    def crossed(self, rows: Rows) -> tuple[Rows, Ints, Ints]:
        """A row for each path of ``rows``, and the ports and sides where each is counted."""
        parts = self._splitting.every(rows)
        known, place = np.unique(parts["path"], return_inverse=True)
        hops = [self._ports_on(path) for path in known.tolist()]
        most = max((len(own) for own in hops), default=0)
        filled = np.array([own + [(-1, 0)] * (most - len(own)) for own in hops], np.int64)
        filled = filled.reshape(len(hops), most, 2)[place.ravel()]
        return parts, np.ascontiguousarray(filled[:, :, 0]), np.ascontiguousarray(filled[:, :, 1])

    def _ports_on(self, path: int) -> list[tuple[int, int]]:
        """Ports between switches on a path, with the side that counts it at the lower switch."""
        found = []
        for one, other in pairwise(self._router.paths[path].split("|") if path >= 0 else ()):
            if (one, other) in self._port:
                found.append((self._port[one, other], OUT))
            elif (other, one) in self._port:
                found.append((self._port[other, one], IN))
        return found


class PortCounters:
    """Counts rows at all of their ports, and writes the readings.

    Parameters
    ----------
    model : when counters are read, and what happens to them.
    router : the leaf of each NIC, and the switches of each path.
    epoch_ns : time zero of the simulation on the collector's clock.
    """

    def __init__(self, model: CounterConfig, router: Router, epoch_ns: int, draws: Draws) -> None:
        layout = router.layout
        self._model, self._draws = model, draws
        self._epoch_ns = epoch_ns
        self._switches, self._names = list(layout.leaves), _names_of(layout)
        self._nics = len(self._names)
        self._switch = np.asarray(layout.topology.leaf_of_nic, np.int64)
        self._between = PortsBetween(router) if model.ports == "all" else None
        if self._between is not None:
            self._switches = layout.switches
            self._names += self._between.names
            self._switch = np.concatenate((self._switch, self._between.switch))
        self._read_ns = np.zeros((len(self._switches), 0), np.int64)
        self._shown_ns = np.zeros((len(self._switches), 0), np.int64)
        self._moved = np.zeros((len(self._switch), 2, 0), np.int64)
        self._last_ns = 0

    def count(self, rows: Rows) -> None:
        """Add the bytes of ``rows`` to the port of the source and to that of the destination."""
        if not len(rows):
            return
        self._last_ns = max(self._last_ns, int(rows["end_ns"].max()))
        self._extend(self._last_ns)
        inside = rows[(rows["src"] < self._nics) & (rows["dst"] < self._nics)]
        ports = np.stack((inside["src"], inside["dst"]), axis=1).astype(np.int64)
        sides = np.broadcast_to(np.array([IN, OUT]), ports.shape)
        _add(inside, ports, sides, self._switch, self._shown_ns, self._moved)
        if self._between is not None:
            parts, ports, sides = self._between.crossed(inside)
            ports = np.where(ports >= 0, ports + self._nics, ports)
            _add(parts, ports, sides, self._switch, self._shown_ns, self._moved)

    def _extend(self, until_ns: int) -> None:
        """Draw the times of readings until all counters show the bytes of ``until_ns``."""
        size = self._read_ns.shape[1]
        if size and self._shown_ns[:, -1].min() >= until_ns:
            return
        step_ns = self._model.interval_s * 1e9
        refresh_ns = (self._model.refresh_s or 0.0) * 1e9
        least = int((until_ns + refresh_ns) / step_ns) + 4
        number = np.arange(max(least, 2 * size))
        reads, shows = [], []
        for switch in self._switches:
            late = uniform(self._draws, f"counters read {switch}", number.astype(np.uint64))
            begin, phase = self._draws.stream("counters of", switch).random(2)
            times = (begin + number + late * self._model.jitter) * step_ns
            phase *= refresh_ns
            shown = times
            if refresh_ns:
                shown = np.floor((times - phase) / refresh_ns) * refresh_ns + phase
            reads.append(times.astype(np.int64))
            shows.append(shown.astype(np.int64))
        self._read_ns, self._shown_ns = np.array(reads), np.array(shows)
        moved = np.zeros((len(self._switch), 2, number.size), np.int64)
        moved[:, :, :size] = self._moved
        self._moved = moved

    def write(self, path: Path) -> None:
        """Write the readings of all ports, in order of time."""
        self._extend(self._last_ns)
        used = 1 + np.searchsorted(self._shown_ns.min(axis=0), self._last_ns)
        read_ns = self._read_ns[:, :used]
        totals = np.cumsum(self._moved[:, :, :used], axis=2) + self._bases()[:, :, None]
        for reset in self._model.resets:
            self._restart(totals, read_ns, reset)
        if self._model.bits == 32:
            totals %= 2**32
        kept = np.ones(read_ns.shape, bool)
        for hole in self._model.holes:
            kept &= (read_ns < hole.from_s * 1e9) | (read_ns >= hole.to_s * 1e9)
        pq.write_table(self._table(totals, read_ns, kept), path, compression="zstd")

    def _bases(self) -> Ints:
        """Bytes that each port has counted before."""
        stream = self._draws.stream("counters before")
        return stream.integers(0, MOST_BASE, (len(self._switch), 2))

    def _restart(self, totals: Ints, read_ns: Ints, reset: Reset) -> None:
        """Begin again at zero with what is counted after the reset."""
        for port, switch in enumerate(self._switch):
            if reset.switch not in (None, self._switches[switch]):
                continue
            after = read_ns[switch] >= reset.at_s * 1e9
            if after.any() and not after.all():
                before = totals[port][:, ~after][:, -1:]
                totals[port][:, after] -= before

    def _table(self, totals: Ints, read_ns: Ints, kept: NDArray[np.bool_]) -> pa.Table:
        times, shown = read_ns[self._switch], kept[self._switch]
        port = np.broadcast_to(np.arange(len(self._switch), dtype=np.int32)[:, None], times.shape)
        order = np.argsort(times[shown], kind="stable")
        columns = {
            "time_ns": times[shown][order] + self._epoch_ns,
            "port": pa.DictionaryArray.from_arrays(
                pa.array(port[shown][order]), pa.array(self._names, pa.string())
            ),
            "in_bytes": totals[:, 0][shown][order],
            "out_bytes": totals[:, 1][shown][order],
        }
        return pa.table(columns).replace_schema_metadata(
            {"counters": "cumulative", "side": "switch"}
        )


def _names_of(layout: Layout) -> list[str]:
    """Names of the ports of NICs: their addresses, after those of leaves if NICs share them."""
    if len({*layout.addresses}) == len(layout.addresses):
        return list(layout.addresses)
    leaves = [layout.leaves[leaf] for leaf in layout.leaf_of_nic.tolist()]
    return [f"{leaf}/{name}" for leaf, name in zip(leaves, layout.addresses, strict=True)]


@compiled
def _add(rows: Rows, ports: Ints, sides: Ints, switch: Ints, shown_ns: Ints, moved: Ints) -> None:
    """Add each row's bytes to the readings between which they passed its ports (-1: none)."""
    for i in range(len(rows)):
        start, end, size = rows[i]["start_ns"], rows[i]["end_ns"], rows[i]["bytes"]
        for k in range(ports.shape[1]):
            port, side = ports[i, k], sides[i, k]
            if port < 0:
                continue
            times = shown_ns[switch[port]]
            place = np.searchsorted(times, start + 1)
            done = 0
            while done < size:
                passed = size
                if times[place] < end:
                    passed = int(size * ((times[place] - start) / (end - start)))
                moved[port, side, place] += passed - done
                done = passed
                place += 1
