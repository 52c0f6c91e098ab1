"""Rail-only: one leaf for each position in an NVLink domain, and no spines.

Only NICs of one position reach each other over the network. What is sent to another position goes
over NVLink first, to the GPU at that position in the sender's own domain, and leaves by its NIC.

Reference: Wang et al., Rail-only: A low-cost high-performance network for training LLMs with
trillion parameters, arXiv 2307.12169, sections 3 and 4.
"""

from __future__ import annotations

from typing import Any, ClassVar

from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.wirings.base import FABRIC, Servers, Wiring


class RailOnly(Wiring):
    """All domains form one block, with as many leaves as a domain has NICs."""

    has_spines: ClassVar[bool] = False

    def servers_per_leaf(self, cluster: Servers) -> int:
        return cluster.leaf_ports * cluster.servers_per_domain

    def leaves_per_block(self, cluster: Servers) -> int:
        return cluster.servers_per_domain * cluster.nics_per_server

    def leaf_in_block(self, cluster: Servers, server: Any, nic: Any) -> Any:
        return server % cluster.servers_per_domain * cluster.nics_per_server + nic

    def remarks(self, cluster: Servers) -> Remarks:
        room = self.servers_per_leaf(cluster)
        if cluster.servers > room:
            domains = -(-cluster.servers // cluster.servers_per_domain)
            what = (
                f"a rail of {domains} NICs, one of each domain, does not fit on a leaf of "
                f"{cluster.leaf_ports} ports, and no spine joins two"
            )
            how = f"give leaves {domains} ports, or use kind: rail"
            about = (("cluster", "servers"), ("cluster", "nvlink_domain"), (*FABRIC, "kind"))
            yield Remark((*FABRIC, "leaf_ports"), what, how, about)
