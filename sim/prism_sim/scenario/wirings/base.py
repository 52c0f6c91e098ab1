"""The interface of a wiring: which leaf each NIC of a server is plugged into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from prism_sim.scenario.base import Loc, Remarks

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
