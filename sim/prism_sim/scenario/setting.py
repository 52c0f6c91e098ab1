"""What the checks of one part of a scenario may know of the rest of it.

A fault or a telemetry effect is checked against the cluster and the jobs around it. It sees
them through :class:`Setting` and so does not depend on the complete scenario, which is put
together above all kinds of faults and effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prism_sim.scenario.cluster import Cluster


class JobOutline(Protocol):
    """A job as others see it, whatever describes its work."""

    @property
    def name(self) -> str:
        """Name of the job; unique in the scenario."""

    @property
    def steps(self) -> int:
        """How many steps it makes."""

    @property
    def ranks(self) -> int:
        """How many GPUs it runs on."""

    @property
    def start_s(self) -> float:
        """When its first step begins [s]."""


class Setting(Protocol):
    """The cluster and the jobs that a fault or an effect is about."""

    @property
    def cluster(self) -> Cluster:
        """The hardware."""

    @property
    def jobs(self) -> Sequence[JobOutline]:
        """The jobs in the cluster."""

    @property
    def duration_s(self) -> float | None:
        """When the simulation ends [s]; None: when all jobs have ended."""
