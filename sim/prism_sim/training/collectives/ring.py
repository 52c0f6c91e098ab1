"""Ring collectives: each of n ranks passes chunks to the next, n - 1 or 2 (n - 1) times.

With c_i the time hop *i* needs for a chunk and L_i its latency, the time between one chunk
and the next is

    period = max(max_i c_i, mean_i (c_i + L_i))

(the largest mean cycle of the max-plus recursion "a hop sends chunk k when it has sent
chunk k - 1 and has received it from the hop before": either one hop is the bottleneck and
hides every latency, or a chunk travels all the way round without ever waiting). K steps take
K periods; equal hops give the textbook K (c + L). What is left out is the transient before the
ring settles into that pace: nil for equal hops, less than one trip of a chunk round
the ring otherwise.

Ranks do not come to a collective at the same time. Hops whose both ends are there send
what they can: the first chunk at once, the next when the hop before has sent one, until the
chain of chunks ends at the rank that is missing. So the hops just behind a late rank are
the last to begin, and the time of the first packets tells who was late.

References: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 2009;
Baccelli et al., Synchronization and Linearity, 1992, for the cycle mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import simpy
from numpy.typing import NDArray

from llmprism.compiled import compiled
from prism_sim.cluster.fabric import Fabric
from prism_sim.cluster.layout import Layout
from prism_sim.cluster.routes import Router
from prism_sim.cluster.state import Int64s
from prism_sim.cluster.templates import HIDDEN
from prism_sim.collector import TRAIN, Collector
from prism_sim.training.collectives.coupled import CoupledHops, Hop

ROUNDS = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}
"""Rounds of n - 1 steps that each operation takes."""


class Ring:
    """One ring of ranks.

    Parameters
    ----------
    hops : the way from each member to the next, all around.
    members : which member of the group sends on each hop.
    shares : how many rings split the group's bytes among them.
    fabric, collector : where bytes move, and who sees them.
    """

    def __init__(
        self,
        hops: Sequence[Hop],
        members: Sequence[int],
        shares: int,
        fabric: Fabric,
        collector: Collector,
    ) -> None:
        self._hops = CoupledHops(hops, fabric)
        self._members = np.array(members)
        self._shares = shares
        self._fabric = fabric
        self._collector = collector

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Run ``operation`` on ``size_bytes`` a rank now; ``event`` fires at its end.

        ``ready_ns`` says when each member of the group had joined, the last one now.
        """
        steps = ROUNDS[operation] * (len(self._hops) - 1)
        chunk_bytes = -(-size_bytes // (len(self._hops) * self._shares))
        ready = np.array(ready_ns, np.int64)[self._members]

        def over(start_ns: int, end_ns: int) -> int:
            return self._over(start_ns, end_ns, chunk_bytes, steps, ready)

        self._fabric.transfer(self._hops.bundle, chunk_bytes * steps, 0, event, over)

    def _over(
        self, start_ns: int, end_ns: int, chunk_bytes: int, steps: int, ready_ns: Int64s
    ) -> int:
        """Write the trains of all hops; returns the time that latencies add [ns]."""
        hops = self._hops
        own_ns = hops.own_ns(chunk_bytes)
        slowest_ns = (end_ns - start_ns) / steps
        period_ns = max(slowest_ns, float((own_ns + hops.latency_ns).mean()))
        chunks, begin, end = early_chunks(ready_ns, own_ns, hops.latency_ns, start_ns, steps)
        trains = np.empty(len(hops), TRAIN)
        trains["route"] = hops.route
        trains["start_ns"] = start_ns + period_ns * chunks
        trains["burst_ns"] = np.minimum(own_ns, period_ns)
        trains["period_ns"] = period_ns
        trains["bursts"] = steps - chunks
        trains["burst_bytes"] = chunk_bytes
        trains["early_bursts"] = chunks
        trains["early_start_ns"] = begin
        trains["early_end_ns"] = end
        self._collector.see(trains)
        return round(steps * (period_ns - slowest_ns))


def early_chunks(
    ready_ns: Int64s,
    own_ns: NDArray[np.float64],
    latency_ns: NDArray[np.float64],
    last_ns: int,
    steps: int,
) -> tuple[Int64s, NDArray[np.float64], NDArray[np.float64]]:
    """What each hop sends before the last rank joins at ``last_ns``.

    Returns
    -------
    chunks, begin_ns, end_ns : how many chunks, the begin of the first and the end of the
        last of them, shape (hops,); a hop without early chunks has 0 and ``last_ns`` twice.
    """
    hops = len(ready_ns)
    chunks = np.zeros(hops, np.int64)
    begin_ns, end_ns = np.full((2, hops), float(last_ns))
    if ready_ns.min() < last_ns:
        _send_early(ready_ns, own_ns, latency_ns, last_ns, steps, chunks, begin_ns, end_ns)
    return chunks, begin_ns, end_ns


@compiled
def _send_early(
    ready_ns: Int64s,
    own_ns: NDArray[np.float64],
    latency_ns: NDArray[np.float64],
    last_ns: int,
    steps: int,
    chunks: Int64s,
    begin_ns: NDArray[np.float64],
    end_ns: NDArray[np.float64],
) -> None:
    hops = len(ready_ns)
    arrived = np.full(hops, -1.0)  # at the far end of each hop, in the step before
    for step in range(steps):
        moved = False
        now_arrived = np.full(hops, np.inf)
        for i in range(hops):
            if chunks[i] < step:
                continue
            begin = float(max(ready_ns[i], ready_ns[(i + 1) % hops]))
            if step > 0:
                begin = max(begin, end_ns[i], arrived[i - 1])
            if begin >= last_ns:
                continue
            moved = True
            if step == 0:
                begin_ns[i] = begin
            chunks[i] = step + 1
            end_ns[i] = begin + own_ns[i]
            now_arrived[i] = end_ns[i] + latency_ns[i]
        arrived = now_arrived
        if not moved:
            return


def rings_of(
    gpus: Sequence[int],
    job: str,
    kind: str,
    layout: Layout,
    router: Router,
    fabric: Fabric,
    collector: Collector,
    queue_pair: int = 0,
) -> list[Ring]:
    """The rings over ``gpus`` that share a collective's bytes evenly.

    One ring for every NIC that each server of the group can contribute. Ring *c* enters and
    leaves a server by the server's *c*-th NIC, so that rails are not crossed, and passes
    through the server's other members over NVLink. (NCCL builds its rings this way, with
    ``NCCL_CROSS_NIC=0``.)
    """
    servers: dict[int, list[int]] = {}
    for member, gpu in enumerate(gpus):
        servers.setdefault(layout.server_of_gpu(gpu), []).append(member)
    groups = list(servers.values())
    nics = [sorted({layout.nic_of_gpu(gpus[m]) for m in group}) for group in groups]
    channels = min(len(n) for n in nics) if len(groups) > 1 else 1
    rings = []
    for c in range(channels):
        hops: list[Hop] = []
        for i, group in enumerate(groups):
            hops += [_nvlink_hop(gpus[a], gpus[b], layout) for a, b in pairwise(group)]
            if len(groups) > 1:
                pair = nics[i][c], nics[(i + 1) % len(groups)][c]
                route = router.route(*pair, job, kind, queue_pair)
                hops.append(Hop(route, tuple(router.links[route]), router.latency_ns([route])))
            else:
                hops.append(_nvlink_hop(gpus[group[-1]], gpus[group[0]], layout))
        members = [member for group in groups for member in group]
        rings.append(Ring(hops, members, channels, fabric, collector))
    return rings


def _nvlink_hop(src_gpu: int, dst_gpu: int, layout: Layout) -> Hop:
    links = layout.nvlink(src_gpu, dst_gpu)
    return Hop(HIDDEN, tuple(links), layout.cluster.nvlink_latency_ns)
