"""The cluster laid out: every NIC, GPU, switch and directed link by number.

A cable is two directed links, since both directions carry traffic at once without
disturbing each other. Links are numbered in five runs: NIC to leaf, leaf to NIC, leaf to
spine, spine to leaf, and each GPU's way out of and into NVLink. Capacities are in bytes a
nanosecond (8 Gbit/s is one).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_sim.scenario.models import Cluster
from prism_sim.scenario.names import leaf_name, nic_address, server_name, spine_name

GBPS = 1 / 8
"""Bytes a nanosecond of one Gbit/s."""


class Layout:
    """Numbers for everything in a :class:`~prism_sim.scenario.models.Cluster`.

    NICs are numbered server by server, and so are GPUs.

    Attributes
    ----------
    addresses : address of each NIC.
    capacity : bytes a nanosecond of each directed link.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        per_server = cluster.nics_per_server
        self.addresses = [
            nic_address(server, nic)
            for server in range(cluster.servers)
            for nic in range(per_server)
        ]
        self.leaf_of_nic = np.array(
            [cluster.leaf_of(*divmod(nic, per_server)) for nic in range(len(self.addresses))]
        )
        self.leaves = [leaf_name(i) for i in range(cluster.leaves)]
        self.spines = [spine_name(i) for i in range(cluster.fabric.spines)]
        nics, uplinks = len(self.addresses), cluster.leaves * cluster.uplinks
        ends = np.cumsum([0, nics, nics, uplinks, uplinks, cluster.gpus, cluster.gpus])
        first: list[int] = ends.tolist()
        self._out, self._in, self._up, self._down, self._nv_out, self._nv_in, self.links = first
        self.capacity = np.zeros(self.links)
        self.capacity[: self._up] = cluster.nic_gbps * GBPS
        self.capacity[self._up : self._nv_out] = cluster.uplink_gbps * GBPS
        self.capacity[self._nv_out :] = cluster.nvlink_gbps * GBPS

    def server_of_gpu(self, gpu: int) -> int:
        return gpu // self.cluster.gpus_per_server

    def nic_of_gpu(self, gpu: int) -> int:
        """The NIC that GPU ``gpu`` sends through; neighbours share one if there are fewer."""
        server, local = divmod(gpu, self.cluster.gpus_per_server)
        return server * self.cluster.nics_per_server + local // self.cluster.gpus_per_nic

    def nic_out(self, nic: int) -> int:
        return self._out + nic

    def nic_in(self, nic: int) -> int:
        return self._in + nic

    def up(self, leaf: int, uplink: int) -> int:
        return self._up + leaf * self.cluster.uplinks + uplink

    def down(self, leaf: int, uplink: int) -> int:
        return self._down + leaf * self.cluster.uplinks + uplink

    def nvlink(self, src_gpu: int, dst_gpu: int) -> list[int]:
        """The directed links from one GPU to another of the same server."""
        return [self._nv_out + src_gpu, self._nv_in + dst_gpu]

    def links_between(self, a: str, b: str) -> NDArray[np.int64]:
        """Directed links, both ways, of the cable or parallel cables between ``a`` and ``b``."""
        at_a, at_b = self.links_at(a), self.links_at(b)
        return np.intersect1d(at_a, at_b)

    def links_at(self, name: str) -> NDArray[np.int64]:
        """Directed links with an end at the NIC address or switch ``name``.

        Raises
        ------
        KeyError : nothing in the cluster has that name.
        """
        uplinks = self.cluster.uplinks
        if name in self.spines:
            legs = np.arange(self._down - self._up)
            legs = legs[legs % uplinks % len(self.spines) == self.spines.index(name)]
            return np.concatenate([self._up + legs, self._down + legs])
        if name in self.leaves:
            leaf = self.leaves.index(name)
            nics = np.flatnonzero(self.leaf_of_nic == leaf)
            legs = leaf * uplinks + np.arange(uplinks)
            return np.concatenate(
                [self._out + nics, self._in + nics, self._up + legs, self._down + legs]
            )
        if name in self.addresses:
            nic = self.addresses.index(name)
            return np.array([self.nic_out(nic), self.nic_in(nic)])
        raise KeyError(name)

    def topology(self) -> dict[str, Any]:
        """What the diagnoser may know, as ``topology.json`` has it."""
        return {
            "endpoints": [self._endpoint(nic) for nic in range(len(self.addresses))],
            "switches": [{"name": leaf, "tier": "leaf"} for leaf in self.leaves]
            + [{"name": spine, "tier": "spine"} for spine in self.spines],
            "links": self._cables(),
        }

    def _endpoint(self, nic: int) -> dict[str, Any]:
        server, index = divmod(nic, self.cluster.nics_per_server)
        share = self.cluster.gpus_per_nic
        return {
            "address": self.addresses[nic],
            "server": server_name(server),
            "nic": index,
            "gpus": list(range(index * share, (index + 1) * share)),
            "switch": self.leaves[self.leaf_of_nic[nic]],
        }

    def _cables(self) -> list[dict[str, Any]]:
        down = [
            {"a": address, "b": self.leaves[leaf], "gbps": self.cluster.nic_gbps}
            for address, leaf in zip(self.addresses, self.leaf_of_nic, strict=True)
        ]
        up = [
            {"a": leaf, "b": self.spines[k % len(self.spines)], "gbps": self.cluster.uplink_gbps}
            for leaf in self.leaves
            for k in range(self.cluster.uplinks)
        ]
        return down + up
