"""What a failure is: its cause, and how the job shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    part: Literal["server", "fabric", "none"] = Field(
        default="server",
        description="what it stays with: a server, until it is replaced; a link or a switch "
        "(fabric), until it is taken out of service; or nothing",
    )
    drain_s: float = Field(
        default=0, ge=0, le=1e8, description="time to take a part of the fabric out of service [s]"
    )

    @property
    def cause(self) -> Cause:
        """The cause, with its rate as its count."""
        part = self.part
        return Cause(
            self.name, self.per_server_day, self.symptom, part == "server", part == "fabric",
            self.drain_s,
        )  # fmt: skip
