"""A cluster and the types of jobs that come to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from prism_sim.operations.times import Lognormal, Time
from prism_sim.scenario.base import Closed, Loc


class JobType(Closed):
    """Jobs of one type."""

    name: str = Field(min_length=1, description="its name in tables and figures")
    share: float = Field(gt=0, le=1, description="part of all jobs")
    batch: int = Field(default=1, ge=1, le=10_000, description="jobs that come at a time")
    gpus: dict[int, float] = Field(
        min_length=1, description="numbers of GPUs, with the weight of each"
    )
    run_s: float = Field(gt=0, description="mean time that a job would run [s]")
    spread: Time = Field(default=Lognormal(sigma=1.5), description="distribution of run times")
    fails: float = Field(default=0, ge=0, le=1, description="part with an error of its own")
    fails_at: float = Field(
        default=0.1, gt=0, le=1, description="mean part of the run time before such an error"
    )
    cancelled: float = Field(default=0, ge=0, le=1, description="part that people cancel")
    reserved: bool = Field(default=False, description="first in the queue, on reserved GPUs too")


class Quarter(Closed):
    """A cluster for some months."""

    kind: Literal["quarter"] = "quarter"
    description: str = Field(default="", description="the question")
    servers: int = Field(ge=1, le=100_000, description="servers of the cluster")
    gpus_per_server: int = Field(default=8, ge=1, le=64, description="GPUs of a server")
    days: float = Field(default=91, gt=0, le=3650, description="simulated time [days]")
    jobs_per_day: float = Field(gt=0, le=1e6, description="jobs that are submitted")
    reserved: float = Field(default=0, ge=0, lt=1, description="part of GPUs for reserved types")
    per_server_day: float = Field(default=0.0065, ge=0, le=10, description="failures of servers")
    types: tuple[JobType, ...] = Field(min_length=1, description="types of jobs")
    seeds: int = Field(default=5, ge=2, le=1000, description="number of replications")

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        return self.servers * self.gpus_per_server

    def unmet(self) -> Iterator[tuple[Loc, str]]:
        """Values that do not fit together: where, and why."""
        if abs(sum(one.share for one in self.types) - 1) > 1e-6:
            yield ("types",), f"shares add up to {sum(one.share for one in self.types):g}, not to 1"
        for index, one in enumerate(self.types):
            limit = self.gpus if one.reserved else self.gpus * (1 - self.reserved)
            if max(one.gpus) > limit:
                what = f"jobs of {one.name} have up to {max(one.gpus)} GPUs, of {limit:.0f}"
                yield ("types", index, "gpus"), what
            if min(one.gpus) < 1:
                yield ("types", index, "gpus"), f"jobs of {one.name} need at least 1 GPU"
            if one.fails + one.cancelled > 1:
                yield ("types", index), f"more than all jobs of {one.name} fail or are cancelled"
