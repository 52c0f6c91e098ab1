"""What racks and fabrics of a family have beyond one port a NIC and NVLink inside a server."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from prism_sim.families.dice import Dice, Share
from prism_sim.scenario.base import Closed


class Topologies(Closed):
    """Ranges of ports, planes and NVLink domains; by default there are none of them."""

    nic_ports: tuple[int, ...] = Field(default=(1,), description="Ports of a NIC.")
    planes: Share = Field(
        default=0.5, description="Share of clusters in which each port has a plane; others: pairs."
    )
    own_addresses: Share = Field(
        default=0.5, description="Share of clusters in which each port has an address of its own."
    )
    domain_servers: tuple[int, ...] = Field(
        default=(1,), min_length=1, description="Servers that share one NVLink domain."
    )

    def servers(self, dice: Dice) -> int:
        """Servers of an NVLink domain."""
        return dice.choice("servers of a domain", self.domain_servers)

    def draw(self, dice: Dice, cluster: dict[str, Any]) -> dict[str, Any]:
        """``cluster`` with ports, planes and domains, where there are any."""
        fabric = dict(cluster["fabric"])
        drawn: dict[str, Any] = {}
        ports = dice.choice("ports of a nic", self.nic_ports)
        if ports > 1:
            own = dice.happens("own addresses", self.own_addresses)
            drawn = {"nic_ports": ports, "port_addresses": "own" if own else "shared"}
            fabric["planes"] = ports if dice.happens("planes", self.planes) else 1
        servers = self.servers(dice)
        if servers > 1:
            drawn["nvlink_domain"] = servers * cluster["gpus_per_server"]
        if fabric["kind"] == "rail_only":
            whole = -(-cluster["servers"] // servers) * servers
            cluster = cluster | {"servers": whole}
            fabric = {"kind": "rail_only", "leaf_ports": cluster["servers"]} | (
                {"planes": fabric["planes"]} if "planes" in fabric else {}
            )
        return cluster | drawn | {"fabric": fabric}
