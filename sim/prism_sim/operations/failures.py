"""What a failure is: its cause, how the job shows it, and which server it is on.

Every random number that a policy may need for a failure is drawn with it, not by a policy. All
policies of a study therefore meet the same failures with the same luck (common random numbers).
Servers differ, and some fail again and again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from prism_sim.scenario.base import Closed

Symptom = Literal["error", "hang", "slow", "spike", "manual"]
"""The job ends with an error, waits, runs slowly, has a spike in its loss, or is ended by hand."""


@dataclass(frozen=True)
class Cause:
    """A cause of failures.

    Attributes
    ----------
    name : as the source has it.
    count : number of cases in the source.
    symptom : how the job shows it.
    on_server : whether it stays with a server until that is replaced.
    in_fabric : whether it stays with a link or a switch until that is taken out of service.
    drain_s : time to take it out of service.
    """

    name: str
    count: float
    symptom: Symptom
    on_server: bool
    in_fabric: bool = False
    drain_s: float = 0.0

    @property
    def has_place(self) -> bool:
        """Whether it returns until its place is found."""
        return self.on_server or self.in_fabric


class OwnCause(Closed):
    """A cause of a study, with a rate of its own."""

    name: str = Field(min_length=1, max_length=64, description="its name in tables")
    per_server_day: float = Field(gt=0, le=10, description="failures a server and day")
    symptom: Symptom = Field(default="error", description="how the job shows it")
    part: Literal["server", "fabric", "none"] = "server"
    """what it stays with: a server, until it is replaced; a link or a switch (fabric), until it is
    taken out of service; or nothing"""
    drain_s: float = Field(default=0, ge=0, le=1e8)
    """time to take a part of the fabric out of service [s]"""

    @property
    def cause(self) -> Cause:
        """The cause, with its rate as its count."""
        part = self.part
        return Cause(
            self.name, self.per_server_day, self.symptom, part == "server", part == "fabric",
            self.drain_s,
        )  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """A failure of the job.

    Attributes
    ----------
    at_s : when it begins.
    cause : its cause.
    server : number of the faulty server.
    repair_s : time until that server can be used again.
    found, located : uniform in [0, 1); decide whether a policy finds it, and its place. All
        detections share ``found``, so that a better one finds all that a worse one finds.
    repeated : it would not have happened on an ordinary server.
    """

    at_s: float
    cause: Cause
    server: int
    repair_s: float
    found: float
    located: float
    repeated: bool = False


class Offenders(Closed):
    """A few servers have a share of all failures.

    In InfiniteHBD's trace, 23 of 400 servers have 28 % of the faults.
    """

    part: float = Field(default=0.0575, gt=0, lt=1, description="part of the servers")
    share: float = Field(default=0.28, gt=0, lt=1, description="part of the failures")

    @property
    def excess(self) -> float:
        """Part of their failures that they would not have as ordinary servers."""
        ordinary = (1 - self.share) / (1 - self.part)
        return max(0.0, 1 - ordinary * self.part / self.share)


def draw_servers(
    stream: np.random.Generator, servers: int, size: int, offenders: Offenders | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Numbers of the failing servers, and whether they fail for being offenders."""
    if offenders is None:
        return stream.integers(servers, size=size), np.zeros(size, dtype=bool)
    few = max(1, round(offenders.part * servers))
    is_offender = stream.random(size) < offenders.share
    first, number = np.where(is_offender, 0, few), np.where(is_offender, few, servers - few)
    placed = first + (stream.random(size) * np.maximum(number, 1)).astype(np.int64)
    repeated = is_offender & (stream.random(size) < offenders.excess)
    return np.minimum(placed, servers - 1), repeated
