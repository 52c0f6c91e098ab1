"""What every fault has in common: how bad it is, and when.

A fault makes something run at a ``factor`` of its healthy speed during a window. The
window is given in steps of a job (what a user of a job thinks in) or in seconds of the
simulation (what an operator of a cluster thinks in), never in both.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from prism_sim.scenario.base import Closed


class FaultBase(Closed):
    """Strength and window of a fault; each kind adds where it strikes."""

    factor: float = Field(
        gt=0, le=1, description="Speed while the fault lasts, as a fraction of the healthy one."
    )
    job: str | None = Field(default=None, description="The job whose steps the window counts.")
    from_step: int | None = Field(
        default=None, ge=0, description="First step hit, from 0. Left out: the job's first."
    )
    to_step: int | None = Field(
        default=None, ge=1, description="First step no longer hit. Left out: none, to the end."
    )
    from_s: float | None = Field(default=None, ge=0, description="Start of the fault [s].")
    to_s: float | None = Field(
        default=None, gt=0, description="End of the fault [s]. Left out: it lasts."
    )

    @property
    def in_steps(self) -> bool:
        """Whether the window is given in steps of ``job`` rather than in seconds."""
        return self.from_step is not None or self.to_step is not None

    @property
    def in_seconds(self) -> bool:
        """Whether the window is given in seconds of the simulation."""
        return self.from_s is not None or self.to_s is not None

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


def _empty(start: float | None, end: float | None) -> bool:
    return end is not None and end <= (start or 0)
