"""Hierarchical all-reduce: NVLink inside the servers, rings between them.

Three phases: the members of each server reduce-scatter among themselves; members of equal
position in all servers all-reduce their share in a ring over the network; the servers gather
the results. Switches observe only the middle phase.

Reference: Jia et al., Highly scalable deep learning training system with mixed-precision,
2018, section 3.2 (hierarchical all-reduce); NCCL's hierarchical algorithms are similar.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar, Literal

import simpy

from prism_common.errors import Problem, UserError
from prism_sim.cluster.network import Network
from prism_sim.training.collectives.base import AllReduceBase, Collective, Group, shared
from prism_sim.training.collectives.ring import rings


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
