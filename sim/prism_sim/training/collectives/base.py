"""What every collective has in common.

A collective algorithm is laid out once for a group of GPUs, and then run as often as the
group likes. Laid out, it is a few :class:`Collective` parts that run side by side (one for
each NIC, say), each with an equal share of the bytes; the group is done when all parts are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import simpy

from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Connection, Network


class Collective(Protocol):
    """One part of a collective, ready to run."""

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Run ``operation`` on a buffer of ``size_bytes`` a rank now; ``event`` fires at its end.

        ``ready_ns`` says when each member of the group had joined, the last one now.
        """


@dataclass(frozen=True)
class Group:
    """GPUs that communicate, in the order of their ranks, and on whose behalf."""

    gpus: Sequence[int]
    connection: Connection

    def by_server(self, layout: Layout) -> list[list[int]]:
        """Members (places in ``gpus``) of each server, in the order of their first one."""
        servers: dict[int, list[int]] = {}
        for member, gpu in enumerate(self.gpus):
            servers.setdefault(layout.server_of_gpu(gpu), []).append(member)
        return list(servers.values())

    def nics_by_server(self, layout: Layout) -> list[list[int]]:
        """The distinct NICs of the members of each server, in the order of ``by_server``."""
        return [
            sorted({layout.nic_of_gpu(self.gpus[member]) for member in members})
            for members in self.by_server(layout)
        ]


Builder = Callable[[Group, Network], list[Collective]]
"""Lays an algorithm out for a group."""


def shared(size_bytes: int, pieces: int) -> int:
    """Bytes of one of ``pieces`` equal pieces, rounded up."""
    return -(-size_bytes // pieces)
