"""The cluster laid out: every NIC, GPU, switch and directed link by number.

A cable is two directed links, since both directions carry traffic at once without
disturbing each other. Links are numbered in runs: NIC to leaf, leaf to spine, spine to core,
each run followed by its reverse, then each GPU's way out of and into NVLink. Capacities
are in bytes a nanosecond (8 Gbit/s is one).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.names import (
    core_name,
    leaf_name,
    nic_address,
    server_name,
    spine_name,
)

GBPS = 1 / 8
"""Bytes a nanosecond of one Gbit/s."""

Numbers = NDArray[np.int64]


class Layout:
    """Numbers for everything in a :class:`~prism_sim.scenario.cluster.Cluster`.

    NICs are numbered server by server, and so are GPUs; spines pod by pod.

    Attributes
    ----------
    addresses : address of each NIC.
    switches : names of all switches, leaves first, then spines, then cores.
    capacity : bytes a nanosecond of each directed link.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        per_server, pods = cluster.nics_per_server, cluster.pods
        nics = cluster.servers * per_server
        self.addresses = [nic_address(*divmod(nic, per_server)) for nic in range(nics)]
        self.leaf_of_nic = np.array([cluster.leaf_of(*divmod(n, per_server)) for n in range(nics)])
        self.n_spines = pods * cluster.fabric.spines
        self.leaves = [leaf_name(i) for i in range(cluster.leaves)]
        self.spines = [spine_name(i) for i in range(self.n_spines)]
        self.cores = [core_name(i) for i in range(cluster.fabric.cores if pods > 1 else 0)]
        self.switches = self.leaves + self.spines + self.cores
        self._lay_cables()

    def _lay_cables(self) -> None:
        """Number the links, and note their ends: NICs first, then switches, by number."""
        cluster, nics = self.cluster, len(self.addresses)
        leaf = np.repeat(np.arange(cluster.leaves), cluster.uplinks)
        uplink = np.tile(np.arange(cluster.uplinks), cluster.leaves)
        per_spine = cluster.core_uplinks if self.cores else 0
        spine = np.repeat(np.arange(self.n_spines), per_spine)
        core = np.tile(np.arange(per_spine), self.n_spines) % max(1, len(self.cores))
        first_spine = nics + len(self.leaves)
        lower = [np.arange(nics), nics + leaf, first_spine + spine]
        upper = [
            nics + self.leaf_of_nic,
            first_spine + self.spine_of(leaf, uplink),
            first_spine + self.n_spines + core,
        ]
        sizes = [nics, nics, len(leaf), len(leaf), len(spine), len(spine)]
        first = np.cumsum([0, *sizes, cluster.gpus, cluster.gpus]).tolist()
        begin: list[int] = first
        self._out, self._in, self._up, self._down, self._core_up, self._core_down = begin[:6]
        self._nv_out, self._nv_in, self.links = begin[6:]
        self._end_a = np.concatenate([x for run in lower for x in (run, run)])
        self._end_b = np.concatenate([x for run in upper for x in (run, run)])
        self.capacity = np.full(self.links, cluster.uplink_gbps * GBPS)
        self.capacity[: self._up] = cluster.nic_gbps * GBPS
        self.capacity[self._nv_out :] = cluster.nvlink_gbps * GBPS

    def spine_of(self, leaf: Any, uplink: Any) -> Any:
        """The spine at the far end of a leaf's uplink (numbers or arrays)."""
        spines = self.cluster.fabric.spines
        return self.pod_of(leaf) * spines + uplink % spines

    def pod_of(self, leaf: Any) -> Any:
        """The pod that a leaf (number or array) belongs to."""
        return leaf // (self.cluster.fabric.pod_leaves or len(self.leaves))

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

    def core_up(self, spine: int, uplink: int) -> int:
        return self._core_up + spine * self.cluster.core_uplinks + uplink

    def core_down(self, spine: int, uplink: int) -> int:
        return self._core_down + spine * self.cluster.core_uplinks + uplink

    def nvlink(self, src_gpu: int, dst_gpu: int) -> list[int]:
        """The directed links from one GPU to another of the same server."""
        return [self._nv_out + src_gpu, self._nv_in + dst_gpu]

    def links_between(self, a: str, b: str) -> Numbers:
        """Directed links, both ways, of the cable or parallel cables between ``a`` and ``b``."""
        return np.intersect1d(self.links_at(a), self.links_at(b))

    def links_at(self, name: str) -> Numbers:
        """Directed links with an end at the NIC address or switch ``name``.

        Raises
        ------
        ValueError : nothing in the cluster has that name.
        """
        end = (self.addresses + self.switches).index(name)
        return np.flatnonzero((self._end_a == end) | (self._end_b == end))

    def topology(self) -> dict[str, Any]:
        """What the diagnoser may know, as ``topology.json`` has it."""
        tiers = [("leaf", self.leaves), ("spine", self.spines), ("core", self.cores)]
        return {
            "endpoints": [self._endpoint(nic) for nic in range(len(self.addresses))],
            "switches": [{"name": name, "tier": tier} for tier, names in tiers for name in names],
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
        names = self.addresses + self.switches
        there = [(self._out, self._in), (self._up, self._down), (self._core_up, self._core_down)]
        return [
            {
                "a": names[self._end_a[link]],
                "b": names[self._end_b[link]],
                "gbps": round(float(self.capacity[link]) / GBPS, 6),
            }
            for begin, end in there
            for link in range(begin, end)
        ]
