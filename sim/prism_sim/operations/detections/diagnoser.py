"""A diagnoser with measured recall, precision and delay."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.detections.base import Detected, DetectionBase
from prism_sim.operations.failure import Failure


class Diagnoser(DetectionBase):
    """Finds hangs and slow jobs; what it misses shows itself as without it."""

    kind: Literal["diagnoser"] = "diagnoser"
    recall: float = Field(ge=0, le=1, description="part of hangs and slow jobs that it finds")
    precision: float = Field(default=1, gt=0, le=1, description="part of its alarms that are true")
    delay_s: float = Field(default=60, ge=0, description="time until it finds a failure [s]")

    def detect(self, failure: Failure) -> Detected:
        shown = self.shown(failure)
        visible = failure.cause.symptom in ("hang", "slow")
        if visible and failure.found < self.recall and self.delay_s < shown.after_s:
            return Detected(self.delay_s)
        return shown

    def false_alarms(self, due: float) -> float:
        return due * self.recall * (1 - self.precision) / self.precision
