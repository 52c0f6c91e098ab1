"""The interfaces through which a fault changes the cluster.

A fault uses a :class:`Target` and nothing else of the simulation. Each part of it changes
one kind of thing, and each change returns the function that undoes it. Changes combine: two
faults that slow the same link multiply, and each is undone separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prism_sim.clock import Clock

Undo = Callable[[], None]
"""Undoes one change."""

LinkNumbers = NDArray[np.int64]
"""Numbers of directed links."""


class LinkControl(Protocol):
    """The network: capacities of links, and uplinks that paths must avoid."""

    def at(self, name: str) -> LinkNumbers:
        """Directed links with an end at a NIC (its address) or a switch (its name)."""

    def between(self, a: str, b: str) -> LinkNumbers:
        """Directed links, in both directions, of all cables between two neighbours."""

    def uplinks_of(self, leaf: str) -> LinkNumbers:
        """Directed links, in both directions, between a leaf and its spines."""

    def slow(self, links: LinkNumbers, factor: float) -> Undo:
        """Make ``links`` run at ``factor`` of their rate."""

    def fail_uplinks(self, leaf: str, uplinks: Sequence[int]) -> Undo:
        """Move all connections over these uplinks of a leaf to other paths."""

    def jobs_across(self, links: LinkNumbers) -> list[str]:
        """Names of the jobs with a connection over any of ``links``."""


class ComputeControl(Protocol):
    """The GPUs of jobs: their speed, and the start of their steps."""

    def address_of(self, job: str, rank: int) -> str:
        """Address of the NIC that a rank uses."""

    def slow(self, job: str, rank: int, factor: float) -> Undo:
        """Make the passes of a rank, and of its lock-step group, take 1/factor as long."""

    def at_step(self, job: str, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when the first rank of ``job`` begins ``step``."""

    def at_step_of_rank(self, job: str, rank: int, step: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` for the time when this rank begins ``step``."""


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
