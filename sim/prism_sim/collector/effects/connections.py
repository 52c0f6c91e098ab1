"""Connection set-up: the handshake before a connection's first use."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_common.kinds import OTHER
from prism_sim.collector.control_traffic import exchange, handshake, when_due
from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.job_hosts import ALWAYS_NS, JobHosts
from prism_sim.collector.rows import Rows
from prism_sim.collector.tuples import TCP, FiveTuple

GLOO_HELLO = (8, 0)
"""First bytes of gloo's two sides: the number of the pair (in all real captures)."""
NCCL_HELLO = (3_500, 3_500)
"""Bytes that both sides of NCCL send to set up a connection over RoCE: 128 entries of 24 bytes, one
per queue pair, names of devices, and a key (``ncclIbConnectionMetadata`` in its ``net_ib``)."""


class Connections(EffectBase):
    """Every connection is opened by a TCP handshake: one small record in each direction.

    Where training itself runs over TCP, the handshake is on the connection's own 5-tuple, once
    for both directions. For RoCE it is on a separate TCP connection, once for each queue pair and
    direction, as NCCL exchanges the numbers of queue pairs. A restarted job connects when
    the old processes have ended.

    Transfers are reported when they end. Rows (80 bytes each) are therefore held for some 20 s of
    the simulation, until the first use of a connection is certain. A first use that lasts longer
    than 10 s counts from when it is reported.
    """

    needs_packets = True

    kind: Literal["connections"] = "connections"
    lead_ms: float = Field(default=1.0, ge=0, le=1e9)
    """Time from the first SYN to the first use [ms]. Default: NCCL connects when a connection is
    first needed. gloo connects when its groups are made: about 5,000."""
    hello_bytes: int | None = Field(default=None, ge=0, le=1_000_000_000)
    """First bytes of the side that connects. Left out: 8 over TCP (gloo, measured), 3,500 for RoCE
    (NCCL, net_ib)."""
    reply_bytes: int | None = Field(default=None, ge=0, le=1_000_000_000)
    """First bytes of the other side. Left out: none over TCP, as much for RoCE."""
    mesh: bool = False
    """Also connect each two ranks of a job that sit in different servers, used or not, before its
    start: gloo's full mesh."""

    @property
    def lookback_ns(self) -> int | None:
        """A connection is set up before its first use."""
        return self._lead_ns

    def stage(self, scene: Scene) -> Stage:
        mesh = when_due(scene, partial(self._mesh, scene))
        known: set[int] = set()

        def connect(rows: Rows) -> Rows:
            opened = self._opened(scene, *_first_uses(scene, rows, known))
            scene.totals.count_added(opened)
            rows = np.concatenate([rows, opened])
            return mesh(rows) if self.mesh else rows

        return connect

    def _opened(self, scene: Scene, tuples: NDArray[np.int32], first_ns: NDArray[np.int64]) -> Rows:
        """Handshakes of the connections of ``tuples``, whose first uses are at ``first_ns``."""
        when_ns = np.maximum(first_ns - self._lead_ns, _processes_since_ns(scene, tuples, first_ns))
        over_tcp = scene.tuples.over_tcp(tuples)
        beside = [_beside(scene, number) for number in tuples[~over_tcp].tolist()]
        gloo, nccl = self._hello(GLOO_HELLO), self._hello(NCCL_HELLO)
        return np.concatenate(
            [
                exchange(scene, tuples[over_tcp], when_ns[over_tcp], *handshake(*gloo)),
                exchange(scene, np.array(beside, np.int32), when_ns[~over_tcp], *handshake(*nccl)),
            ]
        )

    def _hello(self, usual: tuple[int, int]) -> tuple[int, int]:
        """First bytes of both sides: the scenario's, or the ``usual`` ones if it gives none."""
        hello, reply = self.hello_bytes, self.reply_bytes
        return usual[0] if hello is None else hello, usual[1] if reply is None else reply

    def _mesh(self, scene: Scene, hosts: JobHosts) -> Rows:
        """Handshakes between all ranks of a job, lower ranks connecting to higher ones."""
        nics, port = hosts.nics.tolist(), scene.tuples.port
        whose = (hosts.job, hosts.restarts)
        tuples = [
            scene.tuples.add(
                FiveTuple(
                    nics[a], nics[b], port("mesh", *whose, a, b), port("mesh", *whose, b), TCP
                ),
                (hosts.job, OTHER),
            )
            for a, b in combinations(range(len(nics)), 2)
            if nics[a] != nics[b]
        ]
        begin_ns = max(hosts.start_ns - self._lead_ns, hosts.processes_since_ns)
        when_ns = np.full(len(tuples), begin_ns)
        return exchange(scene, np.array(tuples, np.int32), when_ns, *handshake(*GLOO_HELLO))

    @property
    def _lead_ns(self) -> int:
        return round(self.lead_ms * 1e6)


def _first_uses(
    scene: Scene, rows: Rows, known: set[int]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """First use of each connection in ``rows`` that is not ``known``: its 5-tuple and time.

    Over TCP, the two directions are one connection, with the lesser of their numbers.
    """
    rows = rows[scene.tuples.column("routed")[rows["tuple"]] > 0]
    rows = rows[np.lexsort((rows["tuple"], rows["start_ns"]))]
    tuples = rows["tuple"]
    connection = tuples.copy()
    over_tcp = scene.tuples.over_tcp(tuples)
    back = scene.tuples.reverse(tuples[over_tcp])
    connection[over_tcp] = np.minimum(tuples[over_tcp], back)
    found, first = np.unique(connection, return_index=True)
    first = first[[number not in known for number in found.tolist()]]
    known.update(found.tolist())
    return tuples[first], rows["start_ns"][first]


def _processes_since_ns(
    scene: Scene, tuples: NDArray[np.int32], first_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Start of the processes that first use each of ``tuples`` at ``first_ns``."""
    restarted = [hosts for hosts in scene.job_hosts if hosts.restarts]
    since_ns = np.full(len(tuples), ALWAYS_NS)
    if restarted:
        jobs = np.array([(scene.tuples.owners[number] or ("",))[0] for number in tuples.tolist()])
        for hosts in restarted:
            at_ns = hosts.processes_since_ns
            since_ns[(jobs == hosts.job) & (first_ns >= at_ns)] = at_ns
    return since_ns


def _beside(scene: Scene, number: int) -> int:
    """The TCP connection over which the ends of a queue pair exchange its number."""
    known = scene.tuples
    src, dst, port = (int(known.column(name)[number]) for name in ("src", "dst", "src_port"))
    beside = FiveTuple(
        src, dst, known.port("queue pair", src, dst, port), known.port("listens", dst), TCP
    )
    return known.add(beside, known.owners[number])
