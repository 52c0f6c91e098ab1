"""What a fault may do to the cluster, in narrow pieces.

A fault sees a :class:`Target` and nothing else of the simulation. Each piece of it changes
one kind of thing, and each change returns the function that undoes it. Changes add up: two
faults that slow the same link multiply, and each is undone on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prism_sim.clock import Clock

Undo = Callable[[], None]
"""Takes one change back."""

LinkNumbers = NDArray[np.int64]
"""Numbers of directed links."""


class LinkControl(Protocol):
    """The network: capacities of links, and uplinks that paths must avoid."""

    def at(self, name: str) -> LinkNumbers:
        """Directed links with an end at a NIC (its address) or a switch (its name)."""

    def between(self, a: str, b: str) -> LinkNumbers:
        """Directed links, both ways, of all cables between two neighbours."""

    def uplinks_of(self, leaf: str) -> LinkNumbers:
        """Directed links, both ways, between a leaf and its spines."""

    def slow(self, links: LinkNumbers, factor: float) -> Undo:
        """Have ``links`` run at ``factor`` of their rate."""

    def fail_uplinks(self, leaf: str, uplinks: Sequence[int]) -> Undo:
        """Have all connections over these uplinks of a leaf take other paths."""

    def jobs_across(self, links: LinkNumbers) -> list[str]:
        """Names of the jobs with a connection over any of ``links``."""


class ComputeControl(Protocol):
    """The GPUs of jobs: how fast they compute, and when their steps begin."""

    def address_of(self, job: str, rank: int) -> str:
        """Address of the NIC that a rank sends through."""

    def slow(self, job: str, rank: int, factor: float) -> Undo:
        """Have the passes of a rank, and of all that move in lock-step with it, take 1/factor."""

    def at_step(self, job: str, step: int, call: Callable[[], None]) -> None:
        """Have ``call`` called when the first rank of ``job`` begins ``step``."""

    def at_step_of_rank(self, job: str, rank: int, step: int, call: Callable[[], None]) -> None:
        """Have ``call`` called when this rank begins ``step``."""


class Target(Protocol):
    """The cluster as faults find it."""

    @property
    def clock(self) -> Clock:
        """The time, for faults that change while they last."""

    @property
    def links(self) -> LinkControl:
        """The network."""

    @property
    def compute(self) -> ComputeControl:
        """The GPUs."""
