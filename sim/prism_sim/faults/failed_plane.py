"""A plane of the fabric that is down: a power feed, or an upgrade that went wrong."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import Culprit, FaultBase
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.target import Target, Undo
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class FailedPlane(FaultBase):
    """All switches of a plane are down, and every NIC uses its ports in the other planes.

    With k planes, (k - 1) / k of the fabric's rate is left.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"plane_down"})

    kind: Literal["failed_plane"] = "failed_plane"
    plane: int = Field(ge=0, le=7, description="The plane, from 0.")
    factor: float = Field(
        default=1.0, ge=1, le=1, description="Speed of the remaining planes: as before."
    )

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        plane = int(drawing.stream.integers(drawing.setting.cluster.fabric.planes))
        return super().drawn(drawing) | {"plane": plane}

    @property
    def speed(self) -> float | None:
        return self.factor

    def magnitude(self, target: Target) -> float:
        return 1 / target.links.ports_of_a_nic

    def culprit(self, target: Target) -> Culprit:
        return Culprit("plane", f"plane {self.plane}")

    def begin(self, target: Target) -> Undo:
        return target.links.fail_leaves(target.links.leaves_of_plane(self.plane))

    def jobs_affected(self, target: Target) -> list[str]:
        return target.links.jobs_at(target.links.leaves_of_plane(self.plane))

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        planes, about = setting.cluster.fabric.planes, (("cluster", "fabric", "planes"),)
        if planes == 1:
            what = "the fabric has a single plane"
            how = "give it planes: 2 (and NICs as many ports), or let a leaf fail (failed_leaf)"
            yield Remark(("plane",), what, how, about)
        elif self.plane >= planes:
            what = f"there is no plane {self.plane} among {planes}"
            yield Remark(("plane",), what, "planes count from 0", about)
