"""Rail-optimised: NIC *i* of all servers of a block is on the block's leaf *i*."""

from __future__ import annotations

from typing import Any

from prism_sim.scenario.wirings.base import Servers, Wiring


class Rail(Wiring):
    """A block has ``leaf_ports`` servers, and a leaf for each of their NICs."""

    def servers_per_leaf(self, cluster: Servers) -> int:
        return cluster.leaf_ports

    def leaves_per_block(self, cluster: Servers) -> int:
        return cluster.nics_per_server

    def leaf_in_block(self, cluster: Servers, server: Any, nic: Any) -> Any:
        return nic
