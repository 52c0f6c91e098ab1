"""All failure kinds.

A kind says what it is and how often it was published, and writes the lines of the faulty part.
``spread`` then writes what follows from it. Most kinds are rows of ``failures.toml``: their way
(:mod:`~prism_sim.logs.failures.ways`) reads what is no attribute of a kind. Others are an entry
point ``prism_sim.failures`` of another package: a class that derives from :class:`FailureKind`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from prism_sim.logs.failures.python import catalogue
from prism_sim.logs.failures.ways import WAYS, Row
from prism_sim.logs.scene import Scene
from prism_sim.registry import Registry

Category = Literal["hardware", "user", "framework", "platform"]
Stage = Literal["launch", "crash", "hang", "slow"]


class FailureKind(ABC):
    """One cause of failures.

    Attributes
    ----------
    name : its name in the truth.
    about : the cause, in one sentence.
    symptom : the name that it shares with other causes of the same lines.
    category, stage : whose fault it is, and how the job fails.
    count, source : its published number of failures, and where.
    ratio : its published part of the failures with this symptom, if there is one.
    faults : kinds of faults of the simulation that may show themselves so.
    phases : what the job may do when it fails.
    launched : the part of the launch after which it fails, for stage launch.
    repeats_as : the kind as which the same part may fail the next job, if any.
    held_out : whether only the exam set has it.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    symptom: ClassVar[str]
    category: ClassVar[Category]
    stage: ClassVar[Stage] = "crash"
    count: ClassVar[float]
    source: ClassVar[str]
    ratio: ClassVar[float | None] = None
    faults: ClassVar[frozenset[str]] = frozenset()
    phases: ClassVar[tuple[str, ...]] = ("iteration",)
    launched: ClassVar[float] = 0.5
    repeats_as: ClassVar[str | None] = None
    held_out: ClassVar[bool] = False

    @abstractmethod
    def unfold(self, scene: Scene) -> None:
        """Write what the failure lets all programs print."""


class Listed(FailureKind):
    """A kind whose row says what its way writes."""

    way: ClassVar[str]
    row: ClassVar[Row]

    def unfold(self, scene: Scene) -> None:
        WAYS[self.way](scene, self.row)


def listed() -> Iterator[type[FailureKind]]:
    """The kinds, in order of the rows."""
    attributes = set(FailureKind.__annotations__) | {"way"}
    for row in catalogue()["failure"]:
        own: dict[str, Any] = {name: value for name, value in row.items() if name in attributes}
        own |= {"faults": frozenset(row.get("faults", ()))}
        own |= {"phases": tuple(row.get("phases", FailureKind.phases))}
        rest = {name: value for name, value in row.items() if name not in attributes}
        own |= {"row": {"event": row["symptom"]} | rest, "__doc__": row["about"]}
        yield type(row["name"], (Listed,), own)


FAILURES: Registry[type[FailureKind]] = Registry(
    "prism_sim.failures", *listed(), name_of=lambda kind: kind.name
)
"""Every failure kind by its name."""
