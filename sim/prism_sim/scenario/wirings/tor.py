"""Top of rack: all NICs of a few servers are on one leaf."""

from __future__ import annotations

from typing import Any

from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.wirings.base import FABRIC, Servers, Wiring


class Tor(Wiring):
    """A block is a rack, with one leaf."""

    def servers_per_leaf(self, cluster: Servers) -> int:
        return max(1, cluster.leaf_ports // cluster.nics_per_server)

    def leaves_per_block(self, cluster: Servers) -> int:
        return 1

    def leaf_in_block(self, cluster: Servers, server: Any, nic: Any) -> Any:
        return 0

    def remarks(self, cluster: Servers) -> Remarks:
        nics, ports = cluster.nics_per_server, cluster.leaf_ports
        if ports < nics:
            what = f"a leaf of {ports} ports cannot take the {nics} NICs of a server"
            about = (("cluster", "nics_per_server"), (*FABRIC, "kind"))
            yield Remark((*FABRIC, "leaf_ports"), what, "give it more ports", about)
