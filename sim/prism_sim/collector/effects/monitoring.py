"""Monitoring: one host that fetches the metrics of every server periodically."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from prism_common.kinds import OTHER
from prism_sim.collector.control_traffic import Periodic, Turn, exchange, segments
from prism_sim.collector.effects.base import Scene, Stage
from prism_sim.collector.effects.service import ServiceBase
from prism_sim.collector.rows import Rows
from prism_sim.collector.tuples import TCP, FiveTuple


class Monitoring(ServiceBase):
    """A monitor fetches a page from every server, each at its own offset within a fixed period.

    Connections are kept open, as Prometheus does, so a server keeps one 5-tuple.
    """

    kind: Literal["monitoring"] = "monitoring"
    every_s: float = Field(
        default=60.0,
        ge=1e-6,
        le=1e9,
        description="Period [s]. Default: Prometheus' scrape_interval, 1 minute; its sample "
        "configuration has 15.",
    )
    port: int = Field(
        default=9100, ge=1, le=65535, description="Port of the servers. Default: node_exporter's."
    )
    request_bytes: int = Field(
        default=200,
        ge=1,
        le=1_000_000_000,
        description="Payload of a request [bytes], one GET. Assumed: no published figure found.",
    )
    page_bytes: int = Field(
        default=95_000,
        ge=1,
        le=10**12,
        description="Payload of an answer [bytes]. Default: the page in node_exporter's own "
        "end-to-end test, 95,242, not compressed.",
    )

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
