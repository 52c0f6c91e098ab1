"""Faults that stop a job: after a while this is noticed, and the job restarts or ends.

When one rank stops, every other rank waits as soon as it needs something from it, and all traffic
of the job stops. Nothing is reported at once: a collective has a time-out, or a monitor notices
that there is no traffic.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator

from prism_sim.faults.base import FaultBase, every_name
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.target import Target
from prism_sim.faults.timing import nanoseconds
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class Stopping(FaultBase):
    """A fault that lasts until the job restarts, or ends."""

    stops_jobs: ClassVar[bool] = True

    noticed_after_s: float = Field(
        default=600.0,
        ge=1e-9,
        le=1e8,
        description="Time until all ranks are stopped [s]. Default: the time-out of PyTorch's NCCL "
        "process groups, 10 min; inspection takes 10-30 s (ByteRobust, SOSP'25).",
    )
    down_s: float | None = Field(
        default=None,
        ge=1e-9,
        le=1e8,
        description="Time from then until all ranks work again [s]. Left out: the job ends.",
    )

    @model_validator(mode="after")
    def _ends_with_the_attempt(self) -> Stopping:
        if self.to_step is not None or self.to_s is not None:
            what = f"{self.kind} ends when the job restarts"
            raise ValueError(f"{what}; give down_s in place of the end of a window")
        if self.from_step is None and self.from_s is None:
            raise ValueError(f"{self.kind} has no beginning; add from_step or from_s")
        return self

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        """It is noticed after 20 s (ByteRobust, SOSP'25); the window is the time until then."""
        values = super().drawn(drawing)
        return {**values, "to_s": None, "noticed_after_s": 20.0, "down_s": drawing.lasts_s}

    @property
    def lasts_ns(self) -> int | None:
        return self.noticed_ns + (self.down_ns or 0)

    @property
    def noticed_ns(self) -> int:
        """Time until all ranks are stopped [ns]."""
        return nanoseconds(self.noticed_after_s)

    @property
    def down_ns(self) -> int | None:
        """Time from then until all ranks work again [ns]; None if the job ends."""
        return None if self.down_s is None else nanoseconds(self.down_s)

    def magnitude(self, target: Target) -> float:
        return 1.0

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        for job in setting.jobs:
            if job.name == self.job and not job.can_fail:
                what = f"job {job.name} follows a trace, which has no steps after a restart"
                how = "name a job that is described by a model"
                yield Remark(("job",), what, how, every_name(setting))
