"""Failed uplinks of a leaf: a failed line card, a cut bundle of fibres."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfLeaf
from prism_sim.faults.target import Target, Undo
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class FailedUplinks(OfLeaf):
    """Some uplinks of a leaf fail, and its connections share the remaining ones.

    The leaf, and the spines that send to it, rehash every connection over the remaining uplinks.
    With f connections at once over u uplinks of rate C, each has u C / f at most, and m of them on
    one uplink have C / m each. A message that is in flight when the uplinks fail keeps its path to
    its end: it lasts a fraction of a second.
    """

    kind: Literal["failed_uplinks"] = "failed_uplinks"
    factor: float = Field(
        default=1.0, ge=1, le=1, description="Speed of the remaining uplinks: as before."
    )
    failed: int = Field(
        ge=1,
        le=1_000_000,
        description="Number of uplinks that fail: those with the lowest numbers (uplink i leads "
        "to spine i modulo the number of spines). At least one must remain.",
    )

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"failed": 1}

    @property
    def speed(self) -> float | None:
        return self.factor

    def magnitude(self, target: Target) -> float:
        return 2 * self.failed / len(target.links.uplinks_of(self.leaf))  # two directions each

    def begin(self, target: Target) -> Undo:
        return target.links.fail_uplinks(self.leaf, range(self.failed))

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        uplinks = setting.cluster.uplinks
        if self.failed >= uplinks:
            what = f"{self.failed} uplinks fail, but a leaf has only {uplinks}"
            where = (("cluster", "fabric", "uplinks"),)
            yield Remark(("failed",), what, "leave at least one", where)
