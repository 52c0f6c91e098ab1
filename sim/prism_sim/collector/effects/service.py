"""The base of services: one address that many servers exchange messages with."""

from __future__ import annotations

import ipaddress

from pydantic import Field

from prism_sim.collector.effects.base import EffectBase, Scene
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.names import server_index, server_name
from prism_sim.scenario.setting import Setting


class ServiceBase(EffectBase):
    """An effect whose traffic goes to, or comes from, one address.

    A server of the cluster becomes a common neighbour, and so connects all jobs. Records of an
    address that the topology does not contain are set aside.
    """

    needs_packets = True

    at: str = Field(
        default="10.255.255.53",
        description="Its place: a server of the cluster, or an IP address outside it. Default: "
        "an address that no server has, as in the real captures.",
    )

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
