"""The part of a scenario that the checks of faults and effects use.

A fault or a telemetry effect is checked against the cluster and the jobs. It receives
them as a :class:`Setting`, and so does not depend on the complete scenario, which is
defined above all kinds of faults and effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prism_sim.scenario.cluster import Cluster


class JobOutline(Protocol):
    """A job as checks see it, described by a model or by a trace."""

    @property
    def name(self) -> str:
        """Name of the job; unique in the scenario."""

    @property
    def steps(self) -> int:
        """Number of its steps."""

    @property
    def ranks(self) -> int:
        """Number of its GPUs."""

    @property
    def stages(self) -> int:
        """Number of its pipeline stages; 1 for a trace."""

    @property
    def varies_lengths(self) -> bool:
        """Whether the lengths of its sequences may differ from micro-batch to micro-batch."""

    @property
    def can_fail(self) -> bool:
        """Whether the job can stop, and restart, at any time."""

    @property
    def shares_experts(self) -> bool:
        """Whether ranks share the experts of its layers."""

    @property
    def start_s(self) -> float:
        """Start of its first step [s]."""


class Setting(Protocol):
    """The cluster and the jobs around a fault or an effect."""

    @property
    def cluster(self) -> Cluster:
        """The hardware."""

    @property
    def jobs(self) -> Sequence[JobOutline]:
        """The jobs in the cluster."""

    @property
    def storage(self) -> Sequence[str]:
        """The servers for storage only."""

    @property
    def duration_s(self) -> float | None:
        """End of the simulation [s]; None: the end of all jobs."""
