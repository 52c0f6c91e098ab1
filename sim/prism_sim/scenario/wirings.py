"""Wirings: which leaf each NIC of a server is plugged into.

A new kind is a class that derives from :class:`Wiring`, one entry in :data:`WIRINGS`, and its name
in ``fabric.kind`` (:mod:`prism_sim.scenario.cluster`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from prism_sim.scenario.base import Loc, Remark, Remarks

FABRIC: Loc = ("cluster", "fabric")


class Servers(Protocol):
    """What a wiring reads of a cluster."""

    @property
    def servers(self) -> int:
        """Servers in the cluster."""

    @property
    def nics_per_server(self) -> int:
        """NICs in a server."""

    @property
    def servers_per_domain(self) -> int:
        """Servers that share one NVLink domain."""

    @property
    def leaf_ports(self) -> int:
        """NIC ports per leaf."""


class Wiring(ABC):
    """Blocks of servers, each with as many leaves. NICs with several ports have such leaves for
    each of them.

    Attributes
    ----------
    has_spines : whether spines join the leaves.
    """

    has_spines: ClassVar[bool] = True

    @abstractmethod
    def servers_per_leaf(self, cluster: Servers) -> int:
        """Servers of a block: those with a NIC on the same leaf."""

    @abstractmethod
    def leaves_per_block(self, cluster: Servers) -> int:
        """Leaves of a block, for one port of each NIC."""

    @abstractmethod
    def leaf_in_block(self, cluster: Servers, server: Any, nic: Any) -> Any:
        """The leaf in its block, from 0, of NIC ``nic`` of ``server`` (numbers or arrays)."""

    def remarks(self, cluster: Servers) -> Remarks:
        """Errors if these servers cannot be wired in this way."""
        yield from ()


class Rail(Wiring):
    """Rail-optimised: NIC *i* of all servers of a block is on the block's leaf *i*.

    A block has ``leaf_ports`` servers, and a leaf for each of their NICs.
    """

    def servers_per_leaf(self, cluster: Servers) -> int:
        return cluster.leaf_ports

    def leaves_per_block(self, cluster: Servers) -> int:
        return cluster.nics_per_server

    def leaf_in_block(self, cluster: Servers, server: Any, nic: Any) -> Any:
        return nic


class Tor(Wiring):
    """Top of rack: all NICs of a few servers, a block, are on one leaf."""

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


class RailOnly(Wiring):
    """Rail-only: one leaf for each position in an NVLink domain, and no spines.

    All domains form one block, with as many leaves as a domain has NICs. Only NICs of one position
    reach each other over the network. What is sent to another position goes over NVLink first, to
    the GPU at that position in the sender's own domain, and leaves by its NIC.

    Reference: Wang et al., Rail-only: A low-cost high-performance network for training LLMs with
    trillion parameters, arXiv 2307.12169, sections 3 and 4.
    """

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


WIRINGS: dict[str, Wiring] = {"rail": Rail(), "tor": Tor(), "rail_only": RailOnly()}
"""The wiring of each kind of fabric, by its name in a scenario."""
