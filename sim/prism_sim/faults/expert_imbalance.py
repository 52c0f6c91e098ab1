"""Experts of different popularity: some ranks get more tokens, and the others wait for them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import every_name
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfJob
from prism_sim.faults.target import Target, Undo
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class ExpertImbalance(OfJob):
    """The share of tokens that a rank receives varies, by a lognormal factor of sigma ``spread``.

    It is drawn for each layer and micro-batch. A window in seconds takes effect with the first step
    that no rank has begun.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"expert_load_imbalance"})

    kind: Literal["expert_imbalance"] = "expert_imbalance"
    spread: float = Field(ge=1e-6, le=2, description="Sigma of the share, as in moe.imbalance.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"spread": max(1 - drawing.factor, 1e-6)}

    def magnitude(self, target: Target) -> float:
        return min(1.0, self.spread)

    def begin(self, target: Target) -> Undo:
        return target.compute.vary("expert_imbalance", self.job, self.spread, self.steps_varied)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        job = self.outline(setting)
        if job is not None and not job.shares_experts:
            what = f"the ranks of job {job.name} share no experts"
            yield Remark(("job",), what, "give it moe, and ep above 1", every_name(setting))
