"""Numbers for every GPU, NIC and directed link of the cluster.

A cable is two directed links, because its directions do not disturb each other. Links are numbered
in groups: NIC to leaf, leaf to spine, spine to core, each group followed by its reverse; then the
link of each GPU to NVLink, then the link of each GPU from NVLink. Capacities are in bytes per
nanosecond (8 Gbit/s is one).
"""

from __future__ import annotations

import numpy as np

from prism_sim.cluster.topology import Numbers, topology_of
from prism_sim.scenario.cluster import Cluster

GBPS = 1 / 8
"""Bytes per nanosecond of one Gbit/s."""


class Layout:
    """Numbers for everything in a :class:`~prism_sim.scenario.cluster.Cluster`.

    Ports of NICs are numbered server by server, and so are GPUs. The number of a NIC is that of its
    first port.

    Attributes
    ----------
    topology : the graph of NICs and switches.
    addresses : address of each port.
    leaves, switches : names of the leaves, and of all switches.
    links : number of directed links.
    ends : the two nodes that each directed link of the network joins, shape (links, 2).
    capacity : bytes per nanosecond of each directed link.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.topology = topology = topology_of(cluster)
        self.addresses = topology.nics.names
        self.leaves = topology.leaves.names
        self.switches = topology.switches
        self.leaf_of_nic = topology.leaf_of_nic
        self._number_links()

    def _number_links(self) -> None:
        cluster, cables = self.cluster, self.topology.cables
        sizes = [len(run) for run in cables for _ in ("up", "down")]
        first: list[int] = np.cumsum([0, *sizes, cluster.gpus, cluster.gpus]).tolist()
        self._out, self._in, self._up, self._down, self._core_up, self._core_down = first[:6]
        self._nv_out, self._nv_in, self.links = first[6:]
        ends = [np.column_stack([run.lower, run.upper]) for run in cables]
        self.ends = np.concatenate([run for up in ends for run in (up, up[:, ::-1])])
        rates = np.repeat([run.gbps for run in cables for _ in ("up", "down")], sizes)
        nvlinks = np.full(2 * cluster.gpus, cluster.nvlink_gbps)
        self.capacity = np.concatenate([rates, nvlinks]) * GBPS
        self.bucket_bytes = np.zeros(len(self.capacity))
        self.bucket_bytes[: 2 * cluster.servers * cluster.ports_per_server] = (
            cluster.nic_burst_bytes
        )

    def server_of_gpu(self, gpu: int) -> int:
        return gpu // self.cluster.gpus_per_server

    def domain_of_gpu(self, gpu: int) -> int:
        """The NVLink domain of GPU ``gpu``."""
        return gpu // self.cluster.domain_gpus

    def nic(self, server: int, nic: int) -> int:
        """Number of NIC ``nic`` of ``server``."""
        return server * self.cluster.ports_per_server + nic * self.cluster.nic_ports

    def nic_of_gpu(self, gpu: int) -> int:
        """The NIC of GPU ``gpu``; neighbouring GPUs share one if there are fewer NICs."""
        server, local = divmod(gpu, self.cluster.gpus_per_server)
        return self.nic(server, local // self.cluster.gpus_per_nic)

    def gpu_of_nic(self, nic: int) -> int:
        """The first GPU of a NIC."""
        server, port = divmod(nic, self.cluster.ports_per_server)
        local = port // self.cluster.nic_ports * self.cluster.gpus_per_nic
        return server * self.cluster.gpus_per_server + local

    def sender(self, src: int, dst: int) -> int:
        """The NIC that sends from NIC ``src`` to NIC ``dst``: ``src`` where spines join all leaves.

        Otherwise the NIC of its NVLink domain that is on the leaf of ``dst``.
        """
        cluster = self.cluster
        if cluster.wiring.has_spines:
            return src
        in_domain = cluster.servers_per_domain * cluster.ports_per_server
        return src - src % in_domain + dst % in_domain

    def nic_out(self, nic: int) -> int:
        return self._out + nic

    def nic_in(self, nic: int) -> int:
        return self._in + nic

    def up(self, leaf: int, uplink: int) -> int:
        return self._up + leaf * self.cluster.uplinks + uplink

    def down(self, leaf: int, uplink: int) -> int:
        return self._down + leaf * self.cluster.uplinks + uplink

    def core_up(self, spine: int, uplink: int) -> int:
        return self._core_up + spine * self.topology.core_uplinks + uplink

    def core_down(self, spine: int, uplink: int) -> int:
        return self._core_down + spine * self.topology.core_uplinks + uplink

    def nvlink(self, src_gpu: int, dst_gpu: int) -> list[int]:
        """The directed links from one GPU to another of the same NVLink domain."""
        return [self._nv_out + src_gpu, self._nv_in + dst_gpu]

    def links_between(self, a: str, b: str) -> Numbers:
        """Directed links of all cables between ``a`` and ``b``, in both directions."""
        return np.intersect1d(self.links_at(a), self.links_at(b))

    def links_at(self, name: str) -> Numbers:
        """Directed links with an end at the NIC or switch ``name``: all ports of a NIC.

        Raises
        ------
        ValueError : nothing in the cluster has that name.
        """
        node = self.topology.node(name)
        if node is None:
            raise ValueError(f"nothing in the cluster is called {name}")
        nodes = self.topology.ports_of(node) if node < self.topology.leaves.first else [node]
        return np.flatnonzero(np.isin(self.ends, nodes).any(axis=1))
