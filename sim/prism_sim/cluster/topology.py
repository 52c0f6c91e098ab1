"""The network as a graph: NICs and switches in tiers, and the cables between them.

This is the only description of the graph. It tells the checks of a scenario which switches and
links exist, the layout which directed links there are, and routes their next hop. ``topology.json``
lists it.

A node has a number: ports of NICs come first, server by server and NIC by NIC, then leaves, then
spines pod by pod, then cores. A cable joins a node of one tier (its lower end) to a node of the
next tier. Most NICs have one port: the number of a NIC is that of its first port.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.names import core_name, domain_name, leaf_name, server_name, spine_name

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Tier:
    """The nodes of one level.

    Attributes
    ----------
    name : ``nic``, ``leaf``, ``spine`` or ``core``.
    first : number of its first node.
    count : number of its nodes.
    name_of : name of a node, by its index in the tier.
    index_in : index of the node with a name; any number if there is no such node.
    """

    name: str
    first: int
    count: int
    name_of: Callable[[int], str]
    index_in: Callable[[str], int]

    def __len__(self) -> int:
        return self.count

    @cached_property
    def names(self) -> list[str]:
        """Names of its nodes, in the order of their numbers."""
        return [self.name_of(index) for index in range(self.count)]

    def node(self, name: str) -> int | None:
        """Number of the node with this name; None if there is none."""
        index = self.index_in(name)
        known = 0 <= index < self.count and self.name_of(index) == name
        return self.first + index if known else None

    @property
    def extent(self) -> str:
        """The range of names, for messages."""
        if self.count == 1:
            return self.name_of(0)
        return f"{self.name_of(0)} to {self.name_of(self.count - 1)}"


@dataclass(frozen=True)
class Cables:
    """The cables between two neighbouring tiers, as columns.

    Attributes
    ----------
    lower, upper : the node at each end of each cable.
    gbps : rate of each of them and direction [Gbit/s].
    """

    lower: Numbers
    upper: Numbers
    gbps: float

    def __len__(self) -> int:
        return len(self.lower)


class ClusterTopology:
    """The graph of a :class:`~prism_sim.scenario.cluster.Cluster`.

    Attributes
    ----------
    nics, leaves, spines, cores : the tiers; there are no cores if all leaves form one pod. The
        nodes of ``nics`` are ports.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.spines_per_pod = cluster.spines
        pods = cluster.pods
        self.core_uplinks = cluster.core_uplinks if cluster.pods_per_plane > 1 else 0
        self.nics = Tier(
            "nic", 0, cluster.servers * cluster.ports_per_server, self._address, self._port_number
        )
        self.leaves = _above(self.nics, "leaf", cluster.leaves, leaf_name)
        self.spines = _above(self.leaves, "spine", pods * self.spines_per_pod, spine_name)
        self.cores_per_plane = min(cluster.fabric.cores, self.core_uplinks)
        used_cores = cluster.fabric.planes * self.cores_per_plane
        self.cores = _above(self.spines, "core", used_cores, core_name)

    def _address(self, port: int) -> str:
        """Address of a port of a NIC."""
        server, inside = divmod(port, self.cluster.ports_per_server)
        return self.cluster.address_of(server, *divmod(inside, self.cluster.nic_ports))

    def _port_number(self, address: str) -> int:
        """The first port with this ``address``, or -1."""
        cluster = self.cluster
        if cluster.port_addresses == "shared":
            return _nic_number(address, cluster.nics_per_server) * cluster.nic_ports
        return _nic_number(address, cluster.ports_per_server)

    @property
    def switch_tiers(self) -> tuple[Tier, ...]:
        """The tiers of switches, lowest first."""
        return tuple(tier for tier in (self.leaves, self.spines, self.cores) if len(tier))

    @cached_property
    def switches(self) -> list[str]:
        """Names of all switches, tier by tier."""
        return [name for tier in self.switch_tiers for name in tier.names]

    @cached_property
    def names(self) -> list[str]:
        """Names of all nodes, by number: addresses of NICs, then switches."""
        return self.nics.names + self.switches

    def node(self, name: str) -> int | None:
        """Number of the NIC or switch with this name; None if there is none."""
        found = (tier.node(name) for tier in (self.nics, *self.switch_tiers))
        return next((number for number in found if number is not None), None)

    @cached_property
    def leaf_of_nic(self) -> Numbers:
        """Leaf of each port of a NIC (counted from 0)."""
        server, inside = np.divmod(np.arange(len(self.nics)), self.cluster.ports_per_server)
        nic, port = np.divmod(inside, self.cluster.nic_ports)
        return np.asarray(self.cluster.leaf_of(server, nic, port))

    def plane_of(self, leaf: Any) -> Any:
        """The plane of a leaf (number or array)."""
        return leaf // self.cluster.leaves_per_plane

    def pod_of(self, leaf: Any) -> Any:
        """The pod of a leaf (number or array)."""
        in_plane = self.cluster.leaves_per_plane
        pod = leaf % in_plane // self.cluster.pod_leaves
        return self.plane_of(leaf) * self.cluster.pods_per_plane + pod

    def ports_of(self, nic: int) -> range:
        """All ports of the NIC that has port ``nic``."""
        ports = self.cluster.nic_ports
        return range(nic - nic % ports, nic - nic % ports + ports)

    def spine_of(self, leaf: Any, uplink: Any) -> Any:
        """The spine at the far end of a leaf's uplink (numbers or arrays, counted from 0)."""
        return self.pod_of(leaf) * self.spines_per_pod + uplink % self.spines_per_pod

    def core_of(self, spine: Any, uplink: Any) -> Any:
        """The core at the far end of a spine's uplink (numbers or arrays, counted from 0)."""
        plane = spine // max(1, self.spines_per_pod * self.cluster.pods_per_plane)
        return plane * self.cores_per_plane + uplink % max(1, self.cores_per_plane)

    def uplinks_to_spine(self, spine: int) -> Sequence[int]:
        """Uplinks of a leaf that lead to ``spine`` (of the leaf's own pod)."""
        per_pod = self.spines_per_pod
        return range(spine % per_pod, self.cluster.uplinks, per_pod)

    def uplinks_to_core(self, core: int) -> Sequence[int]:
        """Uplinks of a spine that lead to ``core``."""
        per_plane = max(1, self.cores_per_plane)
        return range(core % per_plane, self.core_uplinks, per_plane)

    @cached_property
    def cables(self) -> tuple[Cables, Cables, Cables]:
        """All cables: NIC to leaf, leaf to spine, spine to core."""
        cluster = self.cluster
        leaf, up = _each(len(self.leaves), cluster.uplinks)
        spine, core_up = _each(len(self.spines), self.core_uplinks)
        nics = np.arange(len(self.nics))
        return (
            Cables(nics, self.leaves.first + self.leaf_of_nic, cluster.port_gbps),
            Cables(
                self.leaves.first + leaf,
                self.spines.first + self.spine_of(leaf, up),
                cluster.uplink_gbps,
            ),
            Cables(
                self.spines.first + spine,
                self.cores.first + self.core_of(spine, core_up),
                cluster.uplink_gbps,
            ),
        )

    def neighbours(self, name: str) -> list[str]:
        """Names of the neighbours of the NIC or switch ``name``: those above it, then those below.

        It does not list all cables, so it is fast for a scenario of any size.
        """
        for tier, above, below in (
            (self.nics, self._leaves_of_nic, None),
            (self.leaves, self._spines_above, self._nics_below),
            (self.spines, self._cores_above, self._leaves_below),
            (self.cores, None, self._spines_below),
        ):
            node = tier.node(name)
            if node is not None:
                index = node - tier.first
                return [*(above(index) if above else ()), *(below(index) if below else ())]
        return []

    def _leaves_of_nic(self, nic: int) -> list[str]:
        leaves = self.leaf_of_nic[self.ports_of(nic)].tolist()
        return [self.leaves.name_of(leaf) for leaf in dict.fromkeys(leaves)]

    def _nics_below(self, leaf: int) -> list[str]:
        return [self.nics.name_of(nic) for nic in np.flatnonzero(self.leaf_of_nic == leaf).tolist()]

    def _spines_above(self, leaf: int) -> list[str]:
        uplinks = range(
            min(self.cluster.uplinks, self.spines_per_pod)
        )  # parallel cables to the same node
        return [self.spines.name_of(self.spine_of(leaf, uplink)) for uplink in uplinks]

    def _leaves_below(self, spine: int) -> list[str]:
        leaves = np.arange(len(self.leaves) if self.uplinks_to_spine(spine) else 0)
        own = leaves[self.pod_of(leaves) == spine // self.spines_per_pod]
        return [self.leaves.name_of(leaf) for leaf in own.tolist()]

    def _cores_above(self, spine: int) -> list[str]:
        uplinks = range(self.cores_per_plane)
        return [self.cores.name_of(self.core_of(spine, uplink)) for uplink in uplinks]

    def _spines_below(self, core: int) -> list[str]:
        if not self.uplinks_to_core(core):
            return []
        in_plane = self.spines_per_pod * self.cluster.pods_per_plane
        first = core // self.cores_per_plane * in_plane
        return self.spines.names[first : first + in_plane]

    def crossed(self, name: str) -> bool:
        """Whether a path between two NICs can lead through the switch or NIC ``name``."""
        node = self.node(name)
        if node is None:
            return False
        return node < self.spines.first or self.cluster.leaves_per_plane > 1

    def to_json(self) -> dict[str, Any]:
        """Content of ``topology.json``, the facts that the diagnoser may know."""
        return {
            "endpoints": [self._endpoint(port) for port in self._addressed()],
            "switches": [
                {"name": name, "tier": tier.name} | self._plane(len(tier), index)
                for tier in self.switch_tiers
                for index, name in enumerate(tier.names)
            ],
            "links": [
                {"a": self.names[lower], "b": self.names[upper], "gbps": round(cables.gbps, 6)}
                for cables in self.cables
                for lower, upper in zip(cables.lower.tolist(), cables.upper.tolist(), strict=True)
            ],
        }

    def _addressed(self) -> range:
        """The ports that have addresses of their own."""
        shared = self.cluster.port_addresses == "shared"
        return range(0, len(self.nics), self.cluster.nic_ports if shared else 1)

    def _plane(self, size: int, index: int) -> dict[str, int]:
        """The plane of a switch, by its place in a tier of ``size``; empty if there is only one."""
        planes = self.cluster.fabric.planes
        return {"plane": index // (size // planes)} if planes > 1 else {}

    def _endpoint(self, port: int) -> dict[str, Any]:
        cluster = self.cluster
        server, inside = divmod(port, cluster.ports_per_server)
        nic, number = divmod(inside, cluster.nic_ports)
        share = cluster.gpus_per_nic
        more: dict[str, Any] = {}
        if cluster.nic_ports > 1 and cluster.port_addresses == "own":
            more["port"] = number
        if cluster.servers_per_domain > 1:
            more["domain"] = domain_name(server // cluster.servers_per_domain)
        return {
            "address": self.nics.names[port],
            "server": server_name(server),
            "nic": nic,
            "gpus": list(range(nic * share, (nic + 1) * share)),
            "switch": self.leaves.names[self.leaf_of_nic[port]],
        } | more


@lru_cache(maxsize=4)
def topology_of(cluster: Cluster) -> ClusterTopology:
    """The graph of ``cluster``; the same cluster has one graph object."""
    return ClusterTopology(cluster)


def _each(nodes: int, uplinks: int) -> tuple[Numbers, Numbers]:
    """Node and uplink of every cable from ``nodes`` nodes with ``uplinks`` each."""
    return np.repeat(np.arange(nodes), uplinks), np.tile(np.arange(uplinks), nodes)


def _above(below: Tier, name: str, count: int, name_of: Callable[[int], str]) -> Tier:
    """The tier of switches whose nodes come after those of ``below``."""
    return Tier(name, below.first + below.count, count, name_of, _trailing_number)


def _trailing_number(name: str) -> int:
    """The number at the end of ``name``, or -1."""
    digits = re.search(r"\d{1,9}$", name, re.ASCII)
    return int(digits[0]) if digits else -1


def _nic_number(address: str, per_server: int) -> int:
    """Number of the NIC with this ``address`` (see names.nic_address), or -1."""
    parts = re.fullmatch(r"10\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", address, re.ASCII)
    if parts is None:
        return -1
    high, low, nic = (int(part) for part in parts.groups())
    return ((high << 8) + low) * per_server + nic - 1
