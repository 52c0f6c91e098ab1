"""DNS: small queries of all ranks to one resolver."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field

from prism_common.kinds import OTHER
from prism_sim.cluster.ways import UDP
from prism_sim.collector.control_traffic import datagram, exchange, when_due
from prism_sim.collector.effects.base import Scene, Stage
from prism_sim.collector.effects.service import ServiceBase
from prism_sim.collector.job_hosts import JobHosts
from prism_sim.collector.rows import Rows, nothing
from prism_sim.collector.tuples import FiveTuple

DNS_PORT = 53


class Dns(ServiceBase):
    """Before its job starts, every rank asks a resolver for the address of rank 0's host.

    After a restart, the new processes ask again.
    """

    kind: Literal["dns"] = "dns"
    before_s: float = Field(
        default=5.0,
        ge=0,
        le=1e8,
        description="Start of the look-ups, before the job's first step [s]. Default: as for "
        "rendezvous; the look-ups come first.",
    )
    lasts_s: float = Field(
        default=0.5,
        ge=0,
        le=1e8,
        description="Ranks ask at random within this time [s]. Default: as rendezvous.",
    )
    questions: int = Field(
        default=2,
        ge=1,
        le=1_000_000,
        description="Queries of a look-up, each from a port of its own. Default: IPv4 and IPv6, "
        "as in the real captures.",
    )
    query_bytes: int = Field(
        default=41,
        ge=1,
        le=1_000_000_000,
        description="Payload of a query [bytes]. Default: real captures.",
    )
    answer_bytes: int = Field(
        default=57,
        ge=1,
        le=1_000_000_000,
        description="Payload of an answer [bytes]. Default: the query and one address record "
        "of 16 bytes (RFC 1035, name compressed).",
    )

    def stage(self, scene: Scene) -> Stage:
        return when_due(scene, partial(self._queries, scene))

    def _queries(self, scene: Scene, hosts: JobHosts) -> Rows:
        rows = [self._look_up(scene, hosts, rank) for rank in range(len(hosts.nics))]
        return np.concatenate([nothing(), *rows])

    def _look_up(self, scene: Scene, hosts: JobHosts, rank: int) -> Rows:
        host, resolver, known = int(hosts.nics[rank]), self.place(scene), scene.tuples
        if host == resolver:
            return nothing()
        numbers = [
            known.add(
                FiveTuple(
                    host,
                    resolver,
                    known.port(self.kind, hosts.job, hosts.restarts, rank, i),
                    DNS_PORT,
                    UDP,
                ),
                (self.kind, OTHER),
            )
            for i in range(self.questions)
        ]
        drawn = scene.draws.stream(self.kind, hosts.job, hosts.restarts, rank).random()
        before_s, lasts_s = hosts.rendezvous_time(self.before_s, self.lasts_s)
        begin_ns = hosts.start_ns - round((before_s - drawn * lasts_s) * 1e9)
        when_ns = np.full(self.questions, begin_ns)
        ask, answer = datagram(self.query_bytes), datagram(self.answer_bytes)
        return exchange(scene, np.array(numbers, np.int32), when_ns, ask, answer)
