"""The interfaces of all collectives.

A collective algorithm is laid out once for a group of GPUs, and can then run many times. The layout
has some :class:`Collective` parts that run at the same time (for example, one for each NIC), each
with an equal share of the bytes. The collective ends with its last part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import simpy

from prism_sim.cluster.layout import Layout
from prism_sim.cluster.network import Connection, Network
from prism_sim.scenario.base import Closed, Loc, Remark, Remarks
from prism_sim.scenario.job import JobConfig

NEVER_NS = 1 << 62
"""When a member joins that never does [ns]."""


class Collective(Protocol):
    """One part of a collective, ready to run."""

    def start(
        self, operation: str, size_bytes: int, ready_ns: Sequence[int], event: simpy.Event
    ) -> None:
        """Run ``operation`` on ``size_bytes`` per rank now; ``event`` fires at its end.

        ``ready_ns`` has the time at which each member joined; the last one joins now.
        """


@dataclass(frozen=True)
class Group:
    """GPUs that communicate, in the order of their ranks, and the owner of their connections."""

    gpus: Sequence[int]
    connection: Connection

    def by_server(self, layout: Layout) -> list[list[int]]:
        """Members (places in ``gpus``) of each server, in the order of their first one.

        To a collective, a server is what shares one NVLink domain.
        """
        servers: dict[int, list[int]] = {}
        for member, gpu in enumerate(self.gpus):
            servers.setdefault(layout.domain_of_gpu(gpu), []).append(member)
        return list(servers.values())

    def nics_by_server(self, layout: Layout) -> list[list[int]]:
        """The distinct NICs of the members of each server, in the order of ``by_server``."""
        return [
            sorted({layout.nic_of_gpu(self.gpus[member]) for member in members})
            for members in self.by_server(layout)
        ]


class PhasedCollective(Collective, Protocol):
    """A collective whose phases are in the truth, in addition to the whole operation."""

    def take_phases(self) -> list[tuple[str, int, int]]:
        """Kind of span, start and end [ns] of each phase of the last run."""


class PartialCollective(Collective, Protocol):
    """A collective of which the members that joined send something before the others join.

    One without this method sends nothing before all have joined.
    """

    def abandon(self, operation: str, size_bytes: int, ready_ns: Sequence[int]) -> None:
        """Write what was sent until now of a collective that nobody will finish.

        ``ready_ns`` is as in ``start``, and :data:`NEVER_NS` for a member that never joined.
        """

    # A collective may also have ``cut_short``, with the same arguments: all members have joined,
    # but one of its links carries nothing. Without it, what was sent has a record when it ends.


class AllReduceBase(Closed, ABC):
    """An algorithm for all-reduces; each kind adds its options as fields.

    Attributes
    ----------
    over_sockets : whether a socket library (``library`` of a job) can use it too.
    even_servers : whether every server must hold as many ranks of a group.
    spans : kinds of spans of its phases in the truth (:class:`PhasedCollective`).
    """

    over_sockets: ClassVar[bool] = False
    even_servers: ClassVar[bool] = False
    spans: ClassVar[tuple[str, ...]] = ()

    kind: str

    @abstractmethod
    def build(self, group: Group, network: Network) -> list[Collective]:
        """Lay the algorithm out for ``group``; empty for a group of one member."""

    def remarks(self, job: JobConfig, at: Loc) -> Remarks:
        """Errors if ``job`` (at ``at`` in the scenario) cannot use this algorithm."""
        if job.library is not None and not self.over_sockets:
            what = f"the socket library has only rings, not all_reduce: {self.kind}"
            yield Remark((*at, "all_reduce"), what, "leave it out", ((*at, "library"),))


Builder = Callable[[Group, Network], list[Collective]]
"""Lays an algorithm out for a group."""


def shared(size_bytes: int, pieces: int) -> int:
    """Bytes of one of ``pieces`` equal pieces, rounded up."""
    return -(-size_bytes // pieces)
