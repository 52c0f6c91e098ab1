"""Waiting times of small packets before they leave a host.

Acknowledgements and control messages queue behind the data that their host has already given
to its NIC, so they leave in groups, one group a message. A host that is busy computing serves its
network only when its scheduler runs the network stack. Both add pauses to a stream of small
packets that the data do not have, and its records are cut there.

Reference for the queue: the first-in-first-out queue below TCP, in which TCP small queues
(Linux's ``tcp_limit_output_bytes``) bound the bytes of a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.effects.refilled import LONGEST_NS, Refilled
from prism_sim.collector.rows import Rows, nothing

BLOCK_NS = 10_000_000_000
"""Stalls are drawn for 10 s of a host at a time, one stream each."""

Times = NDArray[np.int64]


class Waiting(EffectBase):
    """Small packets wait for the data of their host, and for its scheduler."""

    needs_packets = True

    kind: Literal["waiting"] = "waiting"
    line_bytes: int = Field(default=262_144, ge=0, le=10**15)
    """A message of at most this size is in the NIC's queue as a whole, and small packets behind it
    [bytes]. Default: 256 KiB, tcp_limit_output_bytes of older Linux; newer ones have 1 MiB, then 4
    MiB (ip-sysctl)."""
    refills: bool = False
    """A longer message waits in its socket, and refills the queue as it drains, so small packets
    pass between its parts. False: they never wait for a longer message, and for a shorter one as a
    whole."""
    stall_every_ms: float | None = Field(default=None, ge=1e-6, le=1e12)
    """Mean time between stalls of a host [ms]; exponential. Small packets wait until a stall ends.
    Left out: no stalls; no published figure found."""
    stall_ms: float = Field(default=1.0, ge=1e-6, le=1e12)
    """Median length of a stall [ms]. Assumed: no published figure found."""
    stall_sigma: float = Field(default=0.0, ge=0, le=3)
    """Sigma of the lognormal length of stalls. Default: all are equal. Assumed: no published figure
    found; 1.3 in the twin of a real capture."""

    @property
    def lookback_ns(self) -> int | None:
        """Data, and the small packets that wait for them, must be in one batch."""
        return LONGEST_NS if self.refills else 0

    def stage(self, scene: Scene) -> Stage:
        @lru_cache(maxsize=4096)
        def stalls(host: int, block: int) -> tuple[Times, Times]:
            return self._stalls(scene.draws.stream("stalls", host, block), block)

        queue = Refilled(scene, self.line_bytes) if self.refills else Queue(scene)

        def wait(rows: Rows) -> Rows:
            small = (rows["packets"] == 1) | (rows["payload"] == 0)
            data = rows[~small]
            if not self.refills:
                data = data[data["payload"] <= self.line_bytes]
            waiting = queue.waited(rows[small], data)
            if self.stall_every_ms is not None:
                waiting = _attended(waiting, stalls)
            return np.concatenate([rows[~small], waiting])

        return wait

    def _stalls(self, stream: np.random.Generator, block: int) -> tuple[Times, Times]:
        """Starts and ends of a host's stalls in one block of time [ns]."""
        every_ns = (self.stall_every_ms or 0.0) * 1e6
        count = int(2 * BLOCK_NS / every_ns) + 64
        normal = stream.standard_normal(count)
        length = self.stall_ms * 1e6 * np.exp(self.stall_sigma * normal)
        begin = block * BLOCK_NS + np.cumsum(stream.exponential(every_ns, count))
        begin[1:] += np.cumsum(length)[:-1]
        return np.rint(begin).astype(np.int64), np.rint(begin + length).astype(np.int64)


class Queue:
    """The queues of all hosts, batch after batch.

    It keeps the last data of each host, and small packets that end later than the present rows.

    Parameters
    ----------
    scene : the time that rows have reached; rows must be in order of their start.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._layout = scene.tuples.router.layout
        self._data = nothing()
        self._small = nothing()
        scene.holders.append(self)

    def __len__(self) -> int:
        return len(self._data) + len(self._small)

    def waited(self, small: Rows, data: Rows) -> Rows:
        """Small packets, of this batch or before, whose preceding ``data`` have left."""
        small = np.concatenate([self._small, small])
        data = np.concatenate([self._data, data])
        later = small["end_ns"] >= self._scene.now_ns
        later &= not self._scene.is_over
        small, self._small = small[~later], small[later]
        last = []
        for host in np.unique(data["src"]).tolist():
            own = data[data["src"] == host]
            own = own[np.argsort(own["start_ns"], kind="stable")]
            last.append(own[-1:])
            leave_ns = own["payload"] / self._layout.capacity[self._layout.nic_out(host)]
            clear = np.minimum(own["end_ns"], own["start_ns"] + leave_ns.astype(np.int64))
            these = np.flatnonzero(small["src"] == host)
            _move(small, these, own["start_ns"], clear)
        self._data = np.concatenate([nothing(), *last])
        return small


def _attended(rows: Rows, stalls: Callable[[int, int], tuple[Times, Times]]) -> Rows:
    """``rows`` of small packets; those within a stall of their host are moved to its end."""
    where = np.stack([rows["src"], rows["end_ns"] // BLOCK_NS], axis=1).astype(np.int64)
    found, at = np.unique(where, axis=0, return_inverse=True)
    for number, (host, block) in enumerate(found.tolist()):
        these = np.flatnonzero(at.ravel() == number)
        _move(rows, these, *stalls(host, block))
    return rows


def _move(rows: Rows, these: Times, begin_ns: Times, end_ns: Times) -> None:
    """Move those of ``rows`` that end inside one of the sorted intervals to its end."""
    at = rows["end_ns"][these]
    span = np.searchsorted(begin_ns, at, side="left") - 1
    inside = (span >= 0) & (at < end_ns[span])
    moved = these[inside]
    for name in ("start_ns", "end_ns", "arrival_ns"):
        rows[name][moved] = end_ns[span[inside]]
