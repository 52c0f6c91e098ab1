"""The interfaces through which a fault changes the cluster.

A fault uses a :class:`Target` and nothing else of the simulation. Each part of it changes
one kind of thing, and each change returns the function that undoes it. Changes combine: two
faults that slow the same link multiply, and each is undone separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prism_sim.clock import Clock

Undo = Callable[[], None]
"""Undoes one change."""


def together(changes: Iterable[Undo]) -> Undo:
    """Undo several changes at once."""
    every = [*changes]

    def undo() -> None:
        for change in every:
            change()

    return undo


LinkNumbers = NDArray[np.int64]
"""Numbers of directed links."""


class LinkControl(Protocol):
    """The network: capacities of links, and uplinks that paths must avoid."""

    def at(self, name: str) -> LinkNumbers:
        """Directed links with an end at a NIC (its address) or a switch (its name)."""

    def address_of(self, server: int, nic: int) -> str:
        """Address of a NIC, by the numbers of its server and in the server."""

    def between(self, a: str, b: str) -> LinkNumbers:
        """Directed links, in both directions, of all cables between two neighbours."""

    def uplinks_of(self, leaf: str) -> LinkNumbers:
        """Directed links, in both directions, between a leaf and its spines."""

    def slow(self, links: LinkNumbers, factor: float) -> Undo:
        """Make ``links`` run at ``factor`` of their rate."""

    def lose(self, links: LinkNumbers, repeats: float) -> Undo:
        """Make senders repeat ``repeats`` packets for each packet that passes one of ``links``."""

    def prefer_uplinks(self, leaf: str, uplinks: Sequence[int], times: float) -> Undo:
        """Give uplinks of a leaf ``times`` their weight, where messages are spread by weights."""

    def upstream_of(self, address: str) -> LinkNumbers:
        """Directed links into the leaf of a NIC that carry what is for it at present."""

    def out_of(self, switch: str, *, upwards: bool) -> LinkNumbers:
        """Directed links from a switch to the tier above it, or to the one below it."""

    def of_server(self, server: str) -> LinkNumbers:
        """Directed links, in both directions, between the NICs of a server and their leaves."""

    def rate(self, links: LinkNumbers) -> float:
        """Healthy rate of the slowest of ``links`` [bytes/ns]."""

    def uplink_to(self, leaf: str, uplink: int) -> str:
        """The spine that an uplink of a leaf leads to."""

    def avoid_uplinks(self, leaf: str, uplinks: Sequence[int], job: str | None = None) -> Undo:
        """Let connections that leave a leaf avoid these uplinks: all, or those of ``job``."""

    def fail_uplinks(self, leaf: str, uplinks: Sequence[int]) -> Undo:
        """Move all connections over these uplinks of a leaf to other paths."""

    @property
    def ports_of_a_nic(self) -> int:
        """Ports of every NIC."""

    def leaves_of_plane(self, plane: int) -> list[str]:
        """Names of the leaves of a plane."""

    def fail_leaves(self, leaves: Sequence[str]) -> Undo:
        """Move all connections of these leaves to other ports of their NICs."""

    def jobs_at(self, leaves: Sequence[str]) -> list[str]:
        """Names of the jobs that use NICs with a port on any of these leaves."""

    def jobs_across(self, links: LinkNumbers) -> list[str]:
        """Names of the jobs with a connection over any of ``links``."""


class ComputeControl(Protocol):
    """The GPUs of jobs: their speed, and the start of their steps."""

    def address_of(self, job: str, rank: int) -> str:
        """Address of the NIC that a rank uses."""

    def slow(self, job: str, rank: int, factor: float) -> Undo:
        """Make the passes of a rank, and of its lock-step group, take 1/factor as long."""

    def workers_on(self, server: str) -> list[tuple[str, int]]:
        """Job and first rank of every tensor-parallel group with a GPU in ``server``."""

    def workers_of_stage(self, job: str, stage: int) -> list[int]:
        """First rank of every tensor-parallel group of a pipeline stage."""

    def vary(self, what: str, job: str, value: float, steps: tuple[int | None, int | None]) -> Undo:
        """Change a random quantity of ``job`` in some steps.

        ``what`` is ``length_spread`` or ``expert_imbalance``, and ``value`` its new sigma.
        ``steps`` are the first step with it, and the first without it; None: the first that no rank
        has begun when the change is made, or undone.
        """

    def hold(self, job: str, rank: int) -> Undo:
        """Let a rank, and its lock-step group, wait before its next pass until this is undone."""

    def fail(self, job: str, rank: int | None, noticed_after_ns: int, down_ns: int | None) -> None:
        """Let a job fail: it is stopped when that is noticed, and restarts later.

        ``rank`` stops at once. The job does not restart if ``down_ns`` is None.
        """

    def stall(self, job: str, rank: int, stall_ns: int) -> None:
        """Make a rank, and its lock-step group, wait once before their next pass."""

    def step_of_rank(self, job: str, rank: int) -> int:
        """The step that a rank is in, or begins next."""

    def shortest_step_ns(self, job: str) -> int:
        """Duration of the shortest finished step of ``job`` [ns]; 0 before the first."""

    def nvlink_of(self, job: str, rank: int) -> LinkNumbers:
        """Directed links between the GPU of a rank and NVLink."""

    def nvlink_share(self, job: str, rank: int) -> float:
        """Part of the duration of a rank's passes that its group communicates over NVLink."""

    def at_step(self, job: str, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when the first rank of ``job`` begins ``step``."""

    def at_step_of_rank(self, job: str, rank: int, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when this rank begins ``step``."""


class TrafficControl(Protocol):
    """Traffic that belongs to no job."""

    def senders_to(self, server: str, count: int) -> list[int]:
        """Numbers of the ``count`` servers after ``server``; the first follows the last."""

    def send(self, name: str, src: tuple[int, int], dst: tuple[int, int], size_bytes: int) -> None:
        """Send a flow from a NIC to another, each the numbers of its server and in the server."""


class Target(Protocol):
    """The cluster from the point of view of faults."""

    @property
    def clock(self) -> Clock:
        """The clock, for faults that change during their window."""

    @property
    def links(self) -> LinkControl:
        """The network."""

    @property
    def compute(self) -> ComputeControl:
        """The GPUs."""

    @property
    def traffic(self) -> TrafficControl:
        """Traffic that belongs to no job."""
