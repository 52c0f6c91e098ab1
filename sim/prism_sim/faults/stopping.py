"""Faults that stop a job: after a while this is noticed, and the job restarts or ends.

When one rank stops, every other rank waits as soon as it needs something from it, and all traffic
of the job stops. Nothing is reported at once: a collective has a time-out, or a monitor notices
that there is no traffic.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from prism_sim.faults.base import SLOW_ACCESS, STOPPED, FaultBase, every_name
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfNic, OfRank
from prism_sim.faults.target import Target, Undo
from prism_sim.faults.timing import nanoseconds
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class Stopping(FaultBase):
    """A fault that lasts until the job restarts, or ends."""

    stops_jobs: ClassVar[bool] = True

    noticed_after_s: float = Field(default=600.0, ge=1e-9, le=1e8)
    """Time until all ranks are stopped [s]. Default: the time-out of PyTorch's NCCL process groups,
    10 min; inspection takes 10-30 s (ByteRobust, SOSP'25)."""
    down_s: float | None = Field(default=None, ge=1e-9, le=1e8)
    """Time from then until all ranks work again [s]. Left out: the job ends."""

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


# A hang: one rank stops without a word, and all others wait for it.
class Hang(Stopping, OfRank):
    """One rank, and its tensor-parallel group, stops before its next pass.

    What was sent arrives. The others follow one after another, when they need what does not come.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"crash"})

    kind: Literal["hang"] = "hang"

    def begin(self, target: Target) -> Undo:
        release = target.compute.hold(self.job, self.rank)
        target.compute.fail(self.job, None, self.noticed_ns, self.down_ns)
        return release


# A crash: the process of one rank ends, and all others wait for it.
class Crash(Stopping, OfRank):
    """One rank, and its tensor-parallel group, ends at once, also in the middle of a pass.

    What was sent arrives. As ``restarts`` of a job, but at any time, and in the truth.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"hang"})

    kind: Literal["crash"] = "crash"
    into_step_s: float = Field(default=0.0, ge=0, le=1e8)
    """Time from the fault's beginning to the end [s]."""

    @property
    def lasts_ns(self) -> int | None:
        return self._delay_ns + (super().lasts_ns or 0)

    def begin(self, target: Target) -> Undo:
        def end() -> None:
            target.compute.fail(self.job, self.rank, self.noticed_ns, self.down_ns)

        target.clock.call_at(target.clock.now + self._delay_ns, end)
        return lambda: None

    @property
    def _delay_ns(self) -> int:
        return round(self.into_step_s * 1e9)


# A NIC that stops without a word: nothing goes through it, and nothing is reported.
class StoppedNic(Stopping, OfNic):
    """The link of one NIC carries nothing until the jobs that use it are restarted.

    A message that is under way has no record before it ends, after the restart, or before the
    recording ends. A ring that begins
    without the NIC is given up: its other ranks send until they lack what would come through it.
    """

    causes: ClassVar[frozenset[str]] = SLOW_ACCESS | {"hang", "nic_down"}

    kind: Literal["stopped_nic"] = "stopped_nic"

    def begin(self, target: Target) -> Undo:
        for job in self.jobs_affected(target):
            target.compute.fail(job, None, self.noticed_ns, self.down_ns)
        return target.links.slow(self.links(target), STOPPED)
