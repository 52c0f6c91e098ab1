"""A study of operations: a job, its failures, and policies to compare."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import Field, field_validator

from prism_sim.operations import theory
from prism_sim.operations.causes import CAUSES, Cause
from prism_sim.operations.checkpoints import CHECKPOINTS
from prism_sim.operations.checkpoints.base import CheckpointBase
from prism_sim.operations.detections import DETECTIONS
from prism_sim.operations.detections.base import DetectionBase
from prism_sim.operations.localisations import LOCALISATIONS
from prism_sim.operations.localisations.base import LocalisationBase
from prism_sim.operations.recoveries import RECOVERIES
from prism_sim.operations.recoveries.base import RecoveryBase
from prism_sim.operations.times import TIMES
from prism_sim.operations.times.base import TimeBase
from prism_sim.operations.times.exponential import Exponential
from prism_sim.operations.times.lognormal import Lognormal
from prism_sim.registry import named
from prism_sim.scenario.base import Closed

if TYPE_CHECKING:
    Checkpoint: TypeAlias = CheckpointBase
    Detection: TypeAlias = DetectionBase
    Localisation: TypeAlias = LocalisationBase
    Recovery: TypeAlias = RecoveryBase
    Time: TypeAlias = TimeBase
else:
    Checkpoint = named(CHECKPOINTS)
    Detection = named(DETECTIONS)
    Localisation = named(LOCALISATIONS)
    Recovery = named(RECOVERIES)
    Time = named(TIMES)

_NAMES = [cause.name for cause in CAUSES]


class Failures(Closed):
    """How often the job fails, and from what."""

    per_server_day: float = Field(
        default=0.0065,
        gt=0,
        le=10,
        description="failures a server and day, as Meta's RSC-1",
    )
    between: Time = Field(default=Exponential(), description="distribution of times between them")
    repair: Time = Field(default=Lognormal(sigma=1), description="distribution of repair times")
    repair_s: float = Field(
        default=60_480, gt=0, description="mean time to repair a server [s]; GPUs take 0.7 days"
    )
    slowdown: float = Field(
        default=0.346, ge=0, le=10, description="time that a slow server adds to a step"
    )
    causes: tuple[str, ...] = Field(
        default=tuple(_NAMES), min_length=1, description="causes that occur, with published shares"
    )

    @field_validator("causes")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := sorted(set(names) - set(_NAMES)):
            raise ValueError(f"no cause is called {', '.join(unknown)}; known: {', '.join(_NAMES)}")
        return names

    def kinds(self) -> tuple[Cause, ...]:
        """The causes that occur."""
        return tuple(cause for cause in CAUSES if cause.name in self.causes)


class Policy(Closed):
    """What the platform does against failures."""

    name: str = Field(min_length=1, description="its name in tables and figures")
    checkpoint: Checkpoint = Field(description="when the job saves")
    detection: Detection = Field(description="how failures are detected")
    localisation: Localisation = Field(description="how the server is found")
    recovery: Recovery = Field(description="how the job comes back")


class Study(Closed):
    """A job, its failures, and policies to compare on the same failures."""

    servers: int = Field(ge=1, le=1_000_000, description="servers of the job")
    gpus_per_server: int = Field(default=8, ge=1, le=1024, description="GPUs of a server")
    days: float = Field(gt=0, le=3650, description="simulated time [days]")
    failures: Failures = Field(default=Failures(), description="how often the job fails")
    policies: tuple[Policy, ...] = Field(min_length=1, description="policies to compare")
    seeds: int = Field(default=20, ge=2, le=10_000, description="number of replications")

    @field_validator("policies")
    @classmethod
    def _distinct(cls, policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
        counts: Counter[Any] = Counter(policy.name for policy in policies)
        if twice := [name for name, number in counts.items() if number > 1]:
            raise ValueError(f"two policies are called {twice[0]!r}; give each a name of its own")
        return policies

    @property
    def mttf_s(self) -> float:
        """Mean time between failures of the job."""
        return theory.mttf_s(self.servers, self.failures.per_server_day)
