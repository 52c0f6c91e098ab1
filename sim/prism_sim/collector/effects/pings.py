"""Pings: hosts that check whether others answer."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from prism_common.kinds import OTHER
from prism_sim.collector.control_traffic import Periodic, Turn, exchange
from prism_sim.collector.effects.base import EffectBase, Scene, Stage
from prism_sim.collector.rows import Rows
from prism_sim.collector.tuples import ICMP, FiveTuple
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting

IP_BYTES, ICMP_BYTES = 20, 8
"""Headers (RFC 791, RFC 792). That of ICMP counts as payload, as it does for a capture."""


class Pings(EffectBase):
    """Every server sends another one an ICMP echo request in a fixed period, which answers it.

    Each server has its own offset within the period. The ports of ICMP are 0.
    """

    needs_packets = True

    kind: Literal["pings"] = "pings"
    every_s: float = Field(
        default=1.0, ge=1e-3, le=1e9, description="Period [s]. Default: that of ping(8)."
    )
    ahead: int = Field(
        default=1,
        ge=1,
        le=65_535,
        description="A server pings the one so many places after it; the last ones ping the first. "
        "With the number of servers below a leaf: the server at its place below the next leaf.",
    )
    data_bytes: int = Field(
        default=56,
        ge=0,
        le=65_507,
        description="Bytes behind the ICMP header. Default: those of ping(8).",
    )

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
