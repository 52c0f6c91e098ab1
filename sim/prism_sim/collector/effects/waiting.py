"""What small packets wait for before they leave a host.

Acknowledgements and control messages stand in line behind the data that their host has
already handed to its NIC, so they leave in clumps, a clump a message; and a host that is busy
computing attends to its network only when its scheduler comes round to it. Either way a stream
of small packets gets pauses that the data do not have, and records of it are cut there.

Reference for the line: the first-in-first-out queue below TCP, in which small queues (Linux's
``tcp_limit_output_bytes``) let a connection have a bounded number of bytes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows

BLOCK_NS = 10_000_000_000
"""Stalls are drawn for 10 s of a host at a time, a stream each."""

Times = NDArray[np.int64]


class Waiting(EffectBase):
    """Packets without a transfer of their own wait for their host's data, and for its attention."""

    needs_packets = True

    kind: Literal["waiting"] = "waiting"
    line_bytes: int = Field(
        default=262_144,
        ge=0,
        le=10**15,
        description="A message of at most so many bytes stands in the NIC's queue as a whole, and "
        "small packets behind it [bytes]. Default: 256 KiB, tcp_limit_output_bytes of older "
        "Linux; newer ones have 1 MiB, then 4 MiB (ip-sysctl).",
    )
    stall_every_ms: float | None = Field(
        default=None,
        ge=1e-6,
        le=1e12,
        description="Mean time between stalls of a host, in which small packets wait until its "
        "end [ms]; exponential. Left out: no stalls; no published figure found.",
    )
    stall_ms: float = Field(
        default=1.0,
        ge=1e-6,
        le=1e12,
        description="Median length of a stall [ms]. Assumed: no published figure found.",
    )
    stall_sigma: float = Field(
        default=0.0,
        ge=0,
        le=3,
        description="Sigma of the lognormal length of stalls. Default: all are alike. Assumed: no "
        "published figure found; 1.3 in the twin of a real capture.",
    )

    @property
    def hindsight(self) -> bool:
        """Data and what waits for them must be seen together."""
        return True

    def stage(self, scene: Scene) -> Stage:
        @lru_cache(maxsize=4096)
        def stalls(host: int, block: int) -> tuple[Times, Times]:
            return self._stalls(scene.draws.stream("stalls", host, block), block)

        def attended(rows: Rows) -> Rows:
            """``rows`` of small packets when their host is awake."""
            where = np.stack([rows["src"], rows["end_ns"] // BLOCK_NS], axis=1).astype(np.int64)
            found, at = np.unique(where, axis=0, return_inverse=True)
            for number, (host, block) in enumerate(found.tolist()):
                these = np.flatnonzero(at.ravel() == number)
                _move(rows, these, *stalls(host, block))
            return rows

        def wait(rows: Rows) -> Rows:
            layout = scene.tuples.router.layout
            small = (rows["packets"] == 1) | (rows["payload"] == 0)
            data = rows[~small & (rows["payload"] <= self.line_bytes)]
            waiting = rows[small]
            for host in np.unique(data["src"]).tolist():
                own = data[data["src"] == host]
                own = own[np.argsort(own["start_ns"], kind="stable")]
                leave_ns = own["payload"] / layout.capacity[layout.nic_out(host)]
                clear = np.minimum(own["end_ns"], own["start_ns"] + leave_ns.astype(np.int64))
                these = np.flatnonzero(waiting["src"] == host)
                _move(waiting, these, own["start_ns"], clear)
            if self.stall_every_ms is not None:
                waiting = attended(waiting)
            return np.concatenate([rows[~small], waiting])

        return wait

    def _stalls(self, stream: np.random.Generator, block: int) -> tuple[Times, Times]:
        """Begins and ends of a host's stalls in one block of time [ns]."""
        every_ns = (self.stall_every_ms or 0.0) * 1e6
        count = int(2 * BLOCK_NS / every_ns) + 64
        normal = stream.standard_normal(count)
        length = self.stall_ms * 1e6 * np.exp(self.stall_sigma * normal)
        begin = block * BLOCK_NS + np.cumsum(stream.exponential(every_ns, count))
        begin[1:] += np.cumsum(length)[:-1]
        return np.rint(begin).astype(np.int64), np.rint(begin + length).astype(np.int64)


def _move(rows: Rows, these: Times, begin_ns: Times, end_ns: Times) -> None:
    """Put those of ``rows`` that end inside one of the sorted spans to the span's end."""
    at = rows["end_ns"][these]
    span = np.searchsorted(begin_ns, at, side="left") - 1
    inside = (span >= 0) & (at < end_ns[span])
    moved = these[inside]
    for name in ("start_ns", "end_ns", "arrival_ns"):
        rows[name][moved] = end_ns[span[inside]]
