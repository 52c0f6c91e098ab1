"""Two jobs whose connections meet on one uplink, while others are idle."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import Culprit, every_name
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfLeaf
from prism_sim.faults.target import Target, Undo, together
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting
from prism_sim.scenario.words import did_you_mean


class JobCongestion(OfLeaf):
    """Connections of two jobs that leave the leaf all use the same uplink, and share its rate."""

    causes: ClassVar[frozenset[str]] = frozenset({"congestion", "ecmp", "slow_link"})

    kind: Literal["job_congestion"] = "job_congestion"
    between: tuple[str, str] = Field(description="The two jobs.")
    uplink: int = Field(default=0, ge=0, le=1_000_000, description="Number of the uplink, from 0.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        names = [job.name for job in drawing.setting.jobs]
        if len(names) < 2:
            raise ValueError("there is one job only")
        between = drawing.stream.choice(names, 2, replace=False).tolist()
        return super().drawn(drawing) | {"between": between}

    def magnitude(self, target: Target) -> float:
        return 1 - 2 / len(target.links.uplinks_of(self.leaf))  # two directions each

    def culprit(self, target: Target) -> Culprit:
        return Culprit("link", f"{self.leaf}|{target.links.uplink_to(self.leaf, self.uplink)}")

    def begin(self, target: Target) -> Undo:
        uplinks = range(len(target.links.uplinks_of(self.leaf)) // 2)
        others = [uplink for uplink in uplinks if uplink != self.uplink]
        links = target.links
        return together([links.avoid_uplinks(self.leaf, others, job) for job in self.between])

    def jobs_affected(self, target: Target) -> list[str]:
        return sorted({*super().jobs_affected(target)} & {*self.between})

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        names = [job.name for job in setting.jobs]
        for number, job in enumerate(self.between):
            if job not in names:
                what = f"the fault names the unknown job {job!r}"
                hint = did_you_mean(job, names)
                yield Remark(("between", number), what, hint, every_name(setting))
        if self.between[0] == self.between[1]:
            yield Remark(("between", 1), "a job cannot meet itself", "name two jobs")
        if self.uplink >= setting.cluster.uplinks:
            what = f"uplink {self.uplink} is not one of the {setting.cluster.uplinks} of a leaf"
            where = (("cluster", "fabric", "uplinks"),)
            yield Remark(("uplink",), what, "uplinks count from 0", where)
