"""Services: one address that many servers exchange messages with; and pings between servers."""

from __future__ import annotations

import ipaddress
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_common.kinds import OTHER
from prism_sim.cluster.ways import UDP
from prism_sim.collector.control_traffic import (
    Periodic,
    Turn,
    datagram,
    exchange,
    segments,
    when_due,
)
from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.job_hosts import JobHosts
from prism_sim.collector.rows import Rows, nothing
from prism_sim.collector.tuples import ICMP, TCP, FiveTuple
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.names import server_index, server_name
from prism_sim.scenario.setting import Setting


class ServiceBase(EffectBase):
    """An effect whose traffic goes to, or comes from, one address.

    A server of the cluster becomes a common neighbour, and so connects all jobs. Records of an
    address that the topology does not contain are set aside.
    """

    needs_packets = True

    at: str = "10.255.255.53"
    """Its place: a server of the cluster, or an IP address outside it. Default: an address that no
    server has, as in the real captures."""

    def place(self, scene: Scene) -> int:
        """Number of the service's name."""
        server = server_index(self.at)
        if server is None:
            return scene.tuples.name(self.at)
        return server * scene.tuples.router.layout.cluster.ports_per_server

    def remarks(self, setting: Setting) -> Remarks:
        if self.kind in [job.name for job in setting.jobs]:
            what = f"a job and the traffic of {self.kind} are both called {self.kind!r}"
            yield Remark(("kind",), what, "give the job another name")
        cluster = setting.cluster
        if not cluster.has_server(self.at) and not _is_address(self.at):
            how = f"name a server, {server_name(0)} to {server_name(cluster.servers - 1)}, or an IP"
            yield Remark(("at",), f"{self.at!r} is neither a server nor an address", how)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# DNS: small queries of all ranks to one resolver.

DNS_PORT = 53


class Dns(ServiceBase):
    """Before its job starts, every rank asks a resolver for the address of rank 0's host.

    After a restart, the new processes ask again.
    """

    kind: Literal["dns"] = "dns"
    before_s: float = Field(default=5.0, ge=0, le=1e8)
    """Start of the look-ups, before the job's first step [s]. Default: as for rendezvous; the
    look-ups come first."""
    lasts_s: float = Field(default=0.5, ge=0, le=1e8)
    """Ranks ask at random within this time [s]. Default: as rendezvous."""
    questions: int = Field(default=2, ge=1, le=1_000_000)
    """Queries of a look-up, each from a port of its own. Default: IPv4 and IPv6, as in the real
    captures."""
    query_bytes: int = Field(default=41, ge=1, le=1_000_000_000)
    """Payload of a query [bytes]. Default: real captures."""
    answer_bytes: int = Field(default=57, ge=1, le=1_000_000_000)
    """Payload of an answer [bytes]. Default: the query and one address record of 16 bytes (RFC
    1035, name compressed)."""

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


# Monitoring: one host that fetches the metrics of every server periodically.
class Monitoring(ServiceBase):
    """A monitor fetches a page from every server, each at its own offset within a fixed period.

    Connections are kept open, as Prometheus does, so a server keeps one 5-tuple.
    """

    kind: Literal["monitoring"] = "monitoring"
    every_s: float = Field(default=60.0, ge=1e-6, le=1e9)
    """Period [s]. Default: Prometheus' scrape_interval, 1 minute; its sample configuration has
    15."""
    port: int = Field(default=9100, ge=1, le=65535)
    """Port of the servers. Default: node_exporter's."""
    request_bytes: int = Field(default=200, ge=1, le=1_000_000_000)
    """Payload of a request [bytes], one GET. Assumed: no published figure found."""
    page_bytes: int = Field(default=95_000, ge=1, le=10**12)
    """Payload of an answer [bytes]. Default: the page in node_exporter's own end-to-end test,
    95,242, not compressed."""

    def stage(self, scene: Scene) -> Stage:
        tuples, phase = self._targets(scene)
        times = Periodic(self.every_s * 1e9, phase)

        def scrape(rows: Rows) -> Rows:
            of, when_ns = times.until(scene.now_ns)
            sent = exchange(scene, tuples[of], when_ns, *self._turns())
            scene.totals.count_added(sent)
            return np.concatenate([rows, sent])

        return scrape

    def _turns(self) -> tuple[Turn, Turn]:
        page = segments(self.page_bytes)
        return segments(self.request_bytes, bare=-(-page.packets // 2)), page

    def _targets(self, scene: Scene) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Connections to all servers but the monitor's own, and their offsets within the period."""
        known, monitor = scene.tuples, self.place(scene)
        nics = known.router.layout.cluster.ports_per_server
        every = range(0, len(known.router.layout.addresses), nics)
        hosts = [host for host in every if host != monitor]
        tuples = [
            known.add(
                FiveTuple(monitor, host, known.port(self.kind, host), self.port, TCP),
                (self.kind, OTHER),
            )
            for host in hosts
        ]
        phase = [scene.draws.stream(self.kind, host).random() for host in hosts]
        return np.array(tuples, np.int32), np.array(phase)


# Pings: hosts that check whether others answer.

IP_BYTES, ICMP_BYTES = 20, 8
"""Headers (RFC 791, RFC 792). That of ICMP counts as payload, as it does for a capture."""


class Pings(EffectBase):
    """Every server sends another one an ICMP echo request in a fixed period, which answers it.

    Each server has its own offset within the period. The ports of ICMP are 0.
    """

    needs_packets = True

    kind: Literal["pings"] = "pings"
    every_s: float = Field(default=1.0, ge=1e-3, le=1e9)
    """Period [s]. Default: that of ping(8)."""
    ahead: int = Field(default=1, ge=1, le=65_535)
    """A server pings the one so many places after it; the last ones ping the first. With the number
    of servers below a leaf: the server at its place below the next leaf."""
    data_bytes: int = Field(default=56, ge=0, le=65_507)
    """Bytes behind the ICMP header. Default: those of ping(8)."""

    def stage(self, scene: Scene) -> Stage:
        layout = scene.tuples.router.layout
        hosts = range(0, len(layout.addresses), layout.cluster.ports_per_server)
        tuples = np.array([self._tuple(scene, hosts, place) for place in range(len(hosts))])
        phase = np.array([scene.draws.stream(self.kind, host).random() for host in hosts])
        times = Periodic(self.every_s * 1e9, phase)
        payload = self.data_bytes + ICMP_BYTES
        echo = Turn(payload, 1, payload + IP_BYTES)

        def ping(rows: Rows) -> Rows:
            of, when_ns = times.until(scene.now_ns)
            sent = exchange(scene, tuples[of], when_ns, echo, echo)
            scene.totals.count_added(sent)
            return np.concatenate([rows, sent])

        return ping

    def remarks(self, setting: Setting) -> Remarks:
        if self.kind in [job.name for job in setting.jobs]:
            what = f"a job and the traffic of {self.kind} are both called {self.kind!r}"
            yield Remark(("kind",), what, "give the job another name")
        if self.ahead % setting.cluster.servers == 0:
            what = f"the server {self.ahead} places after a server is the same one"
            yield Remark(("ahead",), what, f"there are {setting.cluster.servers} servers")

    def _tuple(self, scene: Scene, hosts: range, place: int) -> int:
        target = hosts[(place + self.ahead) % len(hosts)]
        connection = FiveTuple(hosts[place], target, 0, 0, ICMP)
        return scene.tuples.add(connection, (self.kind, OTHER))
