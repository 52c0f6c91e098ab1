"""What every fault has in common: how bad it is, and when.

A fault makes something run at a ``factor`` of its healthy speed during a window. The
window is given in steps of a job (what a user of a job thinks in) or in seconds of the
simulation (what an operator of a cluster thinks in), never in both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from prism_sim.scenario.base import Closed, Remark, Remarks
from prism_sim.scenario.words import did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prism_sim.loading.scenario import Scenario
    from prism_sim.world import World


@dataclass(frozen=True)
class Culprit:
    """What a perfect diagnosis would name.

    Attributes
    ----------
    kind : ``address``, ``link`` or ``switch``.
    name : the address, ``a|b`` for a link, or the switch.
    job, rank : where the culprit is one rank of one job.
    """

    kind: str
    name: str
    job: str | None = None
    rank: int | None = None


class FaultBase(Closed, ABC):
    """Strength and window of a fault; each kind adds where it strikes.

    A kind says who the culprit is, how it ``begin`` s and ``end`` s, and which jobs it hits; most
    are a :class:`LinkFault`, which says which links are slow.
    """

    factor: float = Field(
        ge=1e-9, le=1, description="Speed while the fault lasts, as a fraction of the healthy one."
    )
    job: str | None = Field(default=None, description="The job whose steps the window counts.")
    from_step: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000_000,
        description="First step hit, from 0. Left out: the job's first.",
    )
    to_step: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="First step no longer hit. Left out: none, to the end.",
    )
    from_s: float | None = Field(default=None, ge=0, le=1e8, description="Start of the fault [s].")
    to_s: float | None = Field(
        default=None, ge=1e-9, le=1e8, description="End of the fault [s]. Left out: it lasts."
    )

    @property
    def in_steps(self) -> bool:
        """Whether the window is given in steps of ``job`` rather than in seconds."""
        return self.from_step is not None or self.to_step is not None

    @property
    def in_seconds(self) -> bool:
        """Whether the window is given in seconds of the simulation."""
        return self.from_s is not None or self.to_s is not None

    @property
    def changes_nothing(self) -> bool:
        """Whether all is as fast with the fault as without it."""
        return self.factor == 1

    @abstractmethod
    def culprit(self, world: World) -> Culprit:
        """What a perfect diagnosis would name."""

    @abstractmethod
    def begin(self, world: World) -> None:
        """Make it slow, now."""

    @abstractmethod
    def end(self, world: World) -> None:
        """Make it as fast as before, now."""

    @abstractmethod
    def jobs_hit(self, world: World) -> list[str]:
        """Jobs whose work or traffic it slows down."""

    def at_step(self, world: World, step: int, call: Callable[[], None]) -> None:
        """Have ``call`` called when the window's job begins ``step``."""
        assert self.job is not None  # the validator below saw to it
        world.jobs[self.job].at_step(step, call)

    @model_validator(mode="after")
    def _one_window(self) -> FaultBase:
        if self.in_steps and self.in_seconds:
            raise ValueError("the window is given twice, in steps and in seconds; keep one")
        if not self.in_steps and not self.in_seconds:
            raise ValueError("no window is given; add from_step and to_step, or from_s and to_s")
        if self.in_steps and self.job is None:
            raise ValueError("a window in steps needs a job whose steps they are; add job")
        if _empty(self.from_step, self.to_step) or _empty(self.from_s, self.to_s):
            raise ValueError("the window ends before it begins")
        return self

    def remarks(self, scenario: Scenario) -> Remarks:
        """What is wrong with the fault in this scenario; places count from the fault itself.

        A kind adds what is wrong with the place where it strikes.
        """
        names = [job.name for job in scenario.jobs]
        end_s = scenario.duration_s
        if end_s is not None and (self.from_s or 0) >= end_s:
            what = f"the fault starts at {self.from_s} s, and the simulation ends at {end_s} s"
            yield Remark(("from_s",), what, "start it earlier", (("duration_s",),))
        if self.job in names:
            yield from self._window_remarks(scenario, names.index(self.job))
        elif self.job is not None:
            what = f"the fault names the unknown job {self.job!r}"
            yield Remark(("job",), what, did_you_mean(self.job, names), every_name(scenario))

    def _window_remarks(self, scenario: Scenario, index: int) -> Remarks:
        job = scenario.jobs[index]
        reads = (("jobs", index, "steps"), ("jobs", index, "name"))
        how = f"steps of {job.name} run from 0 to {job.steps - 1}"
        if (self.from_step or 0) >= job.steps:
            what = f"from_step {self.from_step} lies after the last step of job {job.name}"
            yield Remark(("from_step",), what, how, reads)
        if (self.to_step or 0) > job.steps:
            what = f"to_step {self.to_step} lies outside the {job.steps} steps of job {job.name}"
            yield Remark(("to_step",), what, f"{how}; to_step is the first one not hit", reads)

    def rank_remarks(self, scenario: Scenario, rank: int | None) -> Remarks:
        """What is wrong with naming ``rank`` of the fault's job."""
        for index, job in enumerate(scenario.jobs):
            if rank is not None and job.name == self.job and rank >= job.ranks:
                what = f"rank {rank} is none of the {job.ranks} ranks of job {job.name}"
                size = tuple(("jobs", index, key) for key in ("name", "dp", "pp", "tp"))
                yield Remark(("rank",), what, f"ranks count from 0 to {job.ranks - 1}", size)


def every_name(scenario: Scenario) -> tuple[tuple[str | int, ...], ...]:
    """Where the scenario's job names stand."""
    return tuple(("jobs", index, "name") for index in range(len(scenario.jobs)))


class LinkFault(FaultBase):
    """A fault that makes links slow."""

    @abstractmethod
    def links(self, world: World) -> NDArray[np.int64]:
        """Directed links that run at ``factor`` of their rate while the fault lasts."""

    def begin(self, world: World) -> None:
        world.slow(self.links(world), self.factor)

    def end(self, world: World) -> None:
        world.restore(self.links(world), self.factor)

    def jobs_hit(self, world: World) -> list[str]:
        return world.jobs_across(self.links(world))


def _empty(start: float | None, end: float | None) -> bool:
    return end is not None and end <= (start or 0)
