"""Failures of a rank with a restart, and background traffic."""

from __future__ import annotations

from pydantic import Field

from prism_sim.scenario.base import Closed


class Restart(Closed):
    """A rank fails, the others wait for it, and the job restarts.

    It restarts from the last checkpoint; without checkpoints, with the step of the failure, as if
    the state were also kept in the memory of other servers.
    """

    step: int = Field(ge=0, le=1_000_000_000)
    """Step in which it fails. Repeated steps count as further steps."""
    rank: int = Field(default=0, ge=0, le=1_000_000_000, description="The rank that fails.")
    into_step_s: float = Field(default=0.0, ge=0, le=1e8)
    """Time from the rank's start of the step to its failure [s]."""
    noticed_after_s: float = Field(default=600.0, ge=1e-9, le=1e8)
    """Time from the failure until the other ranks are stopped [s]. Default: the time-out of
    PyTorch's NCCL process groups, 10 min; inspection takes 10-30 s (ByteRobust, SOSP'25)."""
    down_s: float = Field(ge=1e-9, le=1e8)
    """Time from then until all ranks work again [s]."""


class Background(Closed):
    """Flows that belong to no job, at random times and with random sizes."""

    name: str = Field(min_length=1, max_length=64, description="Name; different from all jobs.")
    flows_per_s: float = Field(ge=1e-9, le=1e9, description="Mean rate of a Poisson process [1/s].")
    median_bytes: float = Field(ge=1e-3, le=1e15, description="Median size of a flow [bytes].")
    sigma: float = Field(default=1.0, ge=0, le=4)
    """Sigma of the lognormal size; 0: all sizes are equal."""
    servers: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Servers that send. Left out: all."""
    to: str | None = None
    """A server that all flows go to, such as storage, logging or monitoring. Left out: any of the
    servers."""
