"""A family: the ranges that similar worlds are drawn from, in a file of its own.

A family is either for development or for an exam. Anybody may look at the worlds of the first and
tune a method to them; worlds of the second are only for a final grade.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from prism_sim.families.dice import Maybe, Span
from prism_sim.families.faults import FaultRanges
from prism_sim.families.hardware import Hardware
from prism_sim.families.telemetry import Telemetry
from prism_sim.families.work import Work
from prism_sim.loading.bundled import folder
from prism_sim.loading.closed import read_closed
from prism_sim.scenario.base import Closed


class Traffic(Closed):
    """Traffic that belongs to no job."""

    flows_per_step: Maybe | None = Field(
        default=None, description="Flows from each server during a step of the first job."
    )
    median_bytes: Span = Field(default=(500.0, 50_000.0), description="Median size [bytes].")


class Family(Closed):
    """Ranges of similar worlds."""

    name: str = Field(
        pattern=r"^[a-z0-9-]+$",
        description="Name of the family; every draw depends on it.",
    )
    version: int = Field(default=1, ge=1, description="Higher after every change of the ranges.")
    set: Literal["develop", "exam"] = Field(
        description="develop: methods may be tuned to its worlds. exam: only for a final grade."
    )
    purpose: str = Field(min_length=1, description="What the worlds have in common: one sentence.")
    rows: int = Field(
        default=150_000,
        ge=1000,
        description="Most flow records and spans of a world; a larger one is drawn again.",
    )
    hardware: Hardware = Field(description="Servers and fabric.")
    work: Work = Field(description="The jobs.")
    telemetry: Telemetry = Field(description="How transfers become records.")
    traffic: Traffic = Field(default=Traffic(), description="Traffic that belongs to no job.")
    faults: FaultRanges = Field(description="The faults.")


def read_family(path: Path) -> Family:
    """The family in the file at ``path``.

    Raises
    ------
    UserError : with every problem found, each with its ``file:line``.
    """
    return read_closed(path, Family)[0]


def read_families(where: Path) -> dict[str, Family]:
    """Every family in the folder ``where`` by its name, sorted."""
    families = [read_family(path) for path in sorted(where.glob("*.yaml"))]
    return {family.name: family for family in sorted(families, key=lambda one: one.name)}


def bundled_families() -> dict[str, Family]:
    """The families of the package, by name; all are for development."""
    return read_families(folder() / "families")
