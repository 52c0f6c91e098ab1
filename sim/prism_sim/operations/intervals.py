"""Rules for the work between two checkpoints; a new kind is a class and one entry below."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PositiveFloat

from prism_sim.operations import theory
from prism_sim.registry import Registry, by_literal, named
from prism_sim.scenario.base import Closed


@dataclass(frozen=True)
class Known:
    """What a rule may know.

    Attributes
    ----------
    mttf_s : mean time between failures of the job.
    elapsed_s : time since the job's start.
    failures : restarts in that time.
    """

    mttf_s: float
    elapsed_s: float = 0.0
    failures: int = 0


class IntervalBase(Closed):
    """A rule for the work between two checkpoints."""

    @abstractmethod
    def work_s(self, stall_s: float, known: Known) -> float:
        """Work between two checkpoints [s], of which each stalls the job for ``stall_s``."""


class Fixed(IntervalBase):
    """A fixed interval.

    The same work between any two checkpoints.
    """

    kind: Literal["fixed"] = "fixed"
    every_s: float = Field(gt=0, description="work between two checkpoints [s]")

    def work_s(self, stall_s: float, known: Known) -> float:
        return self.every_s


class Steps(IntervalBase):
    """A number of steps.

    The same number of steps between any two checkpoints.
    """

    kind: Literal["steps"] = "steps"
    every: int = Field(ge=1, le=1_000_000_000, description="steps between two checkpoints")
    step_s: float = Field(gt=0, le=1e6, description="time of a step [s]")

    def work_s(self, stall_s: float, known: Known) -> float:
        return self.every * self.step_s


class Young(IntervalBase):
    """Young's optimum for exponential failures."""

    kind: Literal["young"] = "young"

    def work_s(self, stall_s: float, known: Known) -> float:
        return theory.young_s(stall_s, known.mttf_s)


class Daly(IntervalBase):
    """Daly's optimum for exponential failures."""

    kind: Literal["daly"] = "daly"

    def work_s(self, stall_s: float, known: Known) -> float:
        return theory.daly_s(stall_s, known.mttf_s)


class Learned(IntervalBase):
    """Daly's optimum for the failures that the job has had so far.

    The mean time between failures is estimated at every restart.

    The guess counts as one failure, so the estimate is the posterior mean of a rate under a
    gamma prior.
    """

    kind: Literal["learned"] = "learned"
    guess_s: float = Field(default=86_400, gt=0)
    """mean time between failures before the first one [s]"""

    def work_s(self, stall_s: float, known: Known) -> float:
        learned_s = (self.guess_s + known.elapsed_s) / (1 + known.failures)
        return theory.daly_s(stall_s, learned_s)


INTERVALS: Registry[type[IntervalBase]] = Registry(
    "prism_sim.operations.intervals", Fixed, Steps, Young, Daly, Learned, name_of=by_literal
)
"""Each kind by its name in a study."""


def _fixed(value: Any) -> Any:
    """A number is a fixed interval in seconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"kind": "fixed", "every_s": value} if is_number else value


if TYPE_CHECKING:
    Interval: TypeAlias = IntervalBase
else:
    Interval = Annotated[
        named(INTERVALS),
        BeforeValidator(_fixed, json_schema_input_type=PositiveFloat | named(INTERVALS)),
    ]
