"""Collectives that divide a group by servers: node-limited all-to-all, hierarchical all-reduce.

An all-to-all of tokens whose experts are in few servers.

A token crosses the network once for each of its servers, and goes from there to its experts over
NVLink. It is sent to the GPU at the position of its own GPU, so only GPUs of one position exchange
tokens over the network, and their NICs are on one rail. Results come back in the same way: they are
added up inside a server before they leave it.

Reference: DeepSeek-AI, DeepSeek-V3 technical report, arXiv 2412.19437, section 3.2.2.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from prism_common.errors import Problem, UserError
from prism_sim.cluster.network import Hop, Network
from prism_sim.training.collectives.base import AllReduceBase, Collective, Group, shared
from prism_sim.training.collectives.ring import rings
from prism_sim.training.collectives.uncoupled import lone_messages


class _Way(NamedTuple):
    """A way from the member ``sender`` to the member ``receiver``: its bundle, and its hops."""

    sender: int
    receiver: int
    bundle: int
    latency_ns: int
    hops: tuple[Hop, ...]


class NodeLimitedAllToAll:
    """Members in several servers, equally many in each, in the order of their positions.

    Parameters
    ----------
    group, network : of the members.
    crossings : how often a token crosses the network for each of its experts, at most 1: its
        servers by its experts.
    """

    def __init__(self, group: Group, network: Network, crossings: float) -> None:
        self._network = network
        self._crossings = crossings
        connections = network.queue_pairs(group.connection)
        self._connections = len(connections)
        servers = [network.layout.domain_of_gpu(gpu) for gpu in group.gpus]
        self._near = servers.count(servers[0])
        self._ways: list[_Way] = []
        for i, a in enumerate(group.gpus):
            for j, b in enumerate(group.gpus):
                same_server = i // self._near == j // self._near
                if i == j or not (same_server or i % self._near == j % self._near):
                    continue
                hops = tuple(network.hop(a, b, connection) for connection in connections)
                self._ways.append(_Way(i, j, *network.bundle(hops), hops))
        self._all = self._bundle_of(across=True), self._bundle_of(across=False)

    def exchange(self, size_bytes: int, share: NDArray[np.float64], event: simpy.Event) -> None:
        """Send ``share[i, j]`` of member i's ``size_bytes`` to member j; ``event`` at the end."""
        env, fabric = self._network.env, self._network.fabric
        ends = []
        sizes = self._sizes(size_bytes, share)
        for across, everything in zip((True, False), self._all, strict=True):
            ways = [way for way in self._ways if self._is_across(way) == across]
            own = {sizes[way.sender, way.receiver] for way in ways}
            if len(own) == 1:
                ends.append(env.event())
                fabric.transfer(everything[0], own.pop(), everything[1], ends[-1])
                continue
            for way in ways:
                ends.append(env.event())
                size = sizes[way.sender, way.receiver]
                fabric.transfer(way.bundle, size, way.latency_ns, ends[-1])
        over = env.all_of(ends)
        assert over.callbacks is not None
        over.callbacks.append(lambda _: env.fire(event))

    def abandon(self, size_bytes: int, share: NDArray[np.float64], ready_ns: Sequence[int]) -> None:
        """Write what was sent between members; see :class:`~.base.PartialCollective`."""
        every = self._sizes(size_bytes, share)
        pairs = [(way.sender, way.receiver, hop) for way in self._ways for hop in way.hops]
        sizes = np.array([every[i, j] for i, j, _ in pairs])
        starts_ns = np.array([max(ready_ns[i], ready_ns[j]) for i, j, _ in pairs])
        hops = [hop for _, _, hop in pairs]
        self._network.observer.observe(lone_messages(hops, sizes, starts_ns, self._network))

    def _sizes(self, size_bytes: int, share: NDArray[np.float64]) -> dict[tuple[int, int], int]:
        """Bytes of each way, on each of its connections, by sender and receiver.

        Between servers: the tokens of the sender for the receiver's server. Inside: the tokens for
        the receiver that came to the sender, from all servers.
        """
        near = self._near
        servers = len(share) // near
        to_server = share.reshape(len(share), servers, near).sum(2)
        arrived = share.reshape(servers, near, len(share)).sum(0)
        made = {}
        for way in self._ways:
            i, j = way.sender, way.receiver
            if self._is_across(way):
                part = self._crossings * float(to_server[i, j // near])
            else:
                part = float(arrived[i % near, j])
            made[i, j] = shared(max(1, round(size_bytes * part)), self._connections)
        return made

    def _is_across(self, way: _Way) -> bool:
        return way.sender // self._near != way.receiver // self._near

    def _bundle_of(self, *, across: bool) -> tuple[int, int]:
        """Number and latency of the bundle of all ways between servers, or inside them."""
        hops = [hop for way in self._ways if self._is_across(way) == across for hop in way.hops]
        return self._network.bundle(hops) if hops else (0, 0)


# Hierarchical all-reduce: NVLink inside the servers, rings between them.
#
# Three phases: the members of each server reduce-scatter among themselves; members of equal
# position in all servers all-reduce their share in a ring over the network; the servers gather
# the results. Switches observe only the middle phase.
#
# Reference: Jia et al., Highly scalable deep learning training system with mixed-precision,
# 2018, section 3.2 (hierarchical all-reduce); NCCL's hierarchical algorithms are similar.


class Hierarchical:
    """The three phases over one group."""

    def __init__(self, group: Group, network: Network) -> None:
        servers = group.by_server(network.layout)
        if len({len(members) for members in servers}) > 1:
            raise UserError(
                Problem(
                    f"job {group.connection.job}: a hierarchical all-reduce needs as many ranks of "
                    f"a group in every server, not {[len(members) for members in servers]}",
                    how="use all_reduce: ring, or place the job evenly",
                )
            )
        self._env = network.env
        self._servers = servers
        self._local = len(servers[0])
        self._members = len(group.gpus)
        inside = [Group([group.gpus[m] for m in members], group.connection) for members in servers]
        across = [
            Group([group.gpus[members[i]] for members in servers], group.connection)
            for i in range(self._local)
        ]
        self._inside = [ring for part in inside for ring in rings(part, network)]
        self._across = [ring for part in across for ring in rings(part, network)]

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Run the phases one after another; see :class:`~.base.Collective`."""
        self._env.process(self._run(size_bytes, event))

    def abandon(self, operation: str, size_bytes: int, ready_ns: Sequence[int]) -> None:
        """Write what whole servers sent; see :class:`~.base.PartialCollective`.

        The time of the phase inside a server, over NVLink, is left out.
        """
        joined_ns = [max(ready_ns[member] for member in members) for members in self._servers]
        share = shared(size_bytes, self._local)
        for part in self._across:
            if hasattr(part, "abandon"):
                part.abandon("all_reduce", share, joined_ns)

    def _run(self, size_bytes: int, event: simpy.Event) -> Generator[simpy.Event, object, None]:
        share = shared(size_bytes, self._local)
        yield from self._phase(self._inside, "reduce_scatter", size_bytes, self._local)
        yield from self._phase(self._across, "all_reduce", share, self._members // self._local)
        yield from self._phase(self._inside, "all_gather", size_bytes, self._local)
        event.succeed()

    def _phase(
        self, parts: list[Collective], operation: str, size_bytes: int, members: int
    ) -> Generator[simpy.Event, object, None]:
        ends = []
        for part in parts:
            ends.append(self._env.event())
            part.start(operation, size_bytes, [self._env.now] * members, ends[-1])
        yield from ends


def hierarchical(group: Group, network: Network) -> list[Collective]:
    """One hierarchical all-reduce over the group."""
    return [Hierarchical(group, network)] if len(group.gpus) > 1 else []


class HierarchicalAllReduce(AllReduceBase):
    """Three phases: inside servers, between them, inside again."""

    even_servers: ClassVar[bool] = True

    kind: Literal["hierarchical"] = "hierarchical"

    def build(self, group: Group, network: Network) -> list[Collective]:
        return hierarchical(group, network)
