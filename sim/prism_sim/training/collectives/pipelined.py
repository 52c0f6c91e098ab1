"""Collectives that send a buffer, slice by slice, along a fixed set of hops.

A tree and a chain differ only in their hops and the depth of each hop: a slice reaches a hop of
depth d after d hops have forwarded it. All hops carry the whole buffer, so they are coupled. The
total time is the buffer size over the rate of the slowest hop, plus the time of one slice to the
deepest hop:

    time = S / min rate + depth (slice / rate + L)

Nothing is written of a tree or a chain that a member never joins. (In a library each hop would send
what fits in its receiver's buffer: 4 MiB at most.)

References: Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast,
reduction and scan, 2009. The slice is NCCL's: an eighth of its 4 MiB channel buffer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import simpy

from prism_sim.cluster.network import Hop, Network
from prism_sim.training.collectives.base import shared
from prism_sim.training.collectives.coupled import CoupledHops, Course, mean_chunk_ns

SLICE_BYTES = 512 * 1024


class Pipelined:
    """One set of hops that carries a buffer, or a share of it.

    Parameters
    ----------
    hops : all hops that carry it.
    depth : number of hops that a slice passes before each of them.
    shares : number of parts that share the group's bytes.
    """

    def __init__(
        self, hops: Sequence[Hop], depth: Sequence[int], shares: int, network: Network
    ) -> None:
        self._hops = CoupledHops(hops, network.fabric)
        self._depth = np.array(depth)
        self._shares = shares
        self._network = network

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Send the share of ``size_bytes`` now; see :class:`~.base.Collective`."""
        share = shared(size_bytes, self._shares)
        slices = shared(share, SLICE_BYTES)
        slice_bytes = shared(share, slices)

        def over(start_ns: int, end_ns: int, log: int) -> int:
            return self._over(self._hops.course(start_ns, end_ns, log), slices, slice_bytes)

        self._hops.move(slices * slice_bytes, event, over, math.inf)

    def _over(self, course: Course, slices: int, slice_bytes: int) -> int:
        """Write the trains of all hops; return the time that depth adds [ns]."""
        hops = self._hops
        period_ns = (course.end_ns - course.start_ns) / slices
        period_ns = max(period_ns, float(mean_chunk_ns(course, slice_bytes).max()))
        last_ns = float(hops.latency_ns.max())
        step_ns = period_ns + last_ns
        delay_ns = self._depth * step_ns
        trains = hops.trains(course, period_ns, slices, slice_bytes, delay_ns)
        self._network.observer.observe(trains)
        return round(int(self._depth.max()) * step_ns + last_ns)
