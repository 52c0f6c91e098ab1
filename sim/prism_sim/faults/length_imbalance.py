"""Sequences of different length: some micro-batches take longer, and stages wait for each other."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from prism_sim.faults.base import every_name
from prism_sim.faults.drawing import Drawing
from prism_sim.faults.places import OfJob
from prism_sim.faults.target import Target, Undo
from prism_sim.scenario.base import Remark, Remarks
from prism_sim.scenario.setting import Setting


class LengthImbalance(OfJob):
    """The tokens of micro-batches vary, by a lognormal factor of sigma ``spread``.

    A window in seconds takes effect with the first step that no rank has begun. Reference: Lin et
    al., OSDI'25: imbalance of sequence lengths is the cause of 21.4 % of slow jobs.
    """

    causes: ClassVar[frozenset[str]] = frozenset({"sequence_length_imbalance"})

    kind: Literal["length_imbalance"] = "length_imbalance"
    spread: float = Field(ge=1e-6, le=1, description="Sigma of the factor, as in length_spread.")

    @classmethod
    def drawn(cls, drawing: Drawing) -> dict[str, Any]:
        return super().drawn(drawing) | {"spread": max(1 - drawing.factor, 1e-6)}

    def magnitude(self, target: Target) -> float:
        return self.spread

    def begin(self, target: Target) -> Undo:
        return target.compute.vary("length_spread", self.job, self.spread, self.steps_varied)

    def remarks(self, setting: Setting) -> Remarks:
        yield from super().remarks(setting)
        job = self.outline(setting)
        if job is not None and not job.varies_lengths:
            what = f"sequences of different lengths are not modelled for job {job.name}"
            how = "name a job with a model, whose ranks share no experts"
            yield Remark(("job",), what, how, every_name(setting))
