"""Storage servers: they have no job, and jobs write to them and read from them.

Every GPU uses one NIC of the storage servers, so the load is spread evenly.
"""

from __future__ import annotations

from collections.abc import Sequence

from prism_common.kinds import OTHER
from prism_sim.cluster.network import Bundle, Connection, Network


class Storage:
    """The storage servers of a cluster.

    Parameters
    ----------
    network : the network of the cluster.
    servers : numbers of the storage servers; at least one.
    """

    def __init__(self, network: Network, servers: Sequence[int]) -> None:
        self._network = network
        layout = network.layout
        every = range(layout.cluster.nics_per_server)
        self._nics = [layout.nic(server, nic) for nic in every for server in servers]

    def bundle(self, job: str, gpus: Sequence[int], *, writing: bool) -> Bundle:
        """A flow between each of ``gpus`` and storage."""
        network, connection = self._network, Connection(job, OTHER, int(writing))
        hops = []
        for gpu in gpus:
            own, far = network.layout.nic_of_gpu(gpu), self._nics[gpu % len(self._nics)]
            src, dst = (own, far) if writing else (far, own)
            hops.append(network.nic_hop(src, dst, connection))
        return network.bundle(hops)
