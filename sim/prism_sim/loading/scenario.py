"""The complete model of a scenario."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Discriminator, Field

from prism_sim.collector.config import CollectorConfig
from prism_sim.collector.inspector import Inspector
from prism_sim.faults import KINDS, FaultBase
from prism_sim.faults.campaign import Campaign
from prism_sim.loading.job import Job, WrittenJob
from prism_sim.logs.config import Logs
from prism_sim.scenario.base import Closed
from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.habits import Background

if TYPE_CHECKING:
    Fault: TypeAlias = FaultBase
else:
    Fault = Annotated[reduce(or_, KINDS.values()), Discriminator("kind")]
    """Any fault; ``kind`` selects it."""


class Scenario(Closed):
    """A cluster, its jobs, faults, and the collector."""

    name: str = Field(default="scenario", min_length=1)
    """Name of the scenario and of its result folder. Left out: the file's name."""
    description: str = Field(default="", description="Purpose of the scenario.")
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of every random draw; same seed, same bytes."""
    cluster: Cluster = Field(description="The hardware.")
    jobs: tuple[WrittenJob, ...]
    """The training jobs: each with a model, or with a trace of its ranks."""
    storage: tuple[str, ...] = ()
    """Servers for storage only: jobs save to them and read from them, and no job is placed there.
    The topology marks them as storage."""
    background: tuple[Background, ...] = ()
    """Traffic that belongs to no job."""
    faults: tuple[Fault, ...] = Field(default=(), description="The faults, each with its window.")
    measure_faults: bool = False
    """Simulate once more without each fault, and write the slowdown that it really causes into the
    truth. Takes as much time again for each fault."""
    collector: CollectorConfig = CollectorConfig()
    """How transfers become flow records."""
    campaign: Campaign | None = None
    """Further faults, drawn at random. Left out: none."""
    logs: Logs | None = None
    """Logs of the jobs, with the truth of each line. Left out: none."""
    collectives: Inspector | None = None
    """What the communication library of each process writes about its collectives. Left out:
    nothing."""
    duration_s: float | None = Field(default=None, ge=1e-9, le=1e8)
    """Stop the simulation at this time [s]; without background traffic, also when all jobs have
    ended. Left out: when all jobs have ended."""
    epoch_ns: int = Field(default=1_767_225_600_000_000_000, ge=0, le=8_000_000_000_000_000_000)
    """The simulation's time zero on the collector's clock [ns since 1970]. Default: 2026-01-01
    00:00 UTC."""

    @property
    def all_faults(self) -> tuple[FaultBase, ...]:
        """The faults in the file, then those of the campaign."""
        drawn = self.campaign.faults(self, self.seed) if self.campaign else ()
        return (*self.faults, *drawn)

    @property
    def without_draws(self) -> Scenario:
        """The same scenario with the faults of its campaign written out."""
        return self.model_copy(update={"faults": self.all_faults, "campaign": None})

    @property
    def modelled(self) -> list[tuple[int, Job]]:
        """Jobs that are described by a model, with their indices among all jobs."""
        return [(index, job) for index, job in enumerate(self.jobs) if isinstance(job, Job)]
