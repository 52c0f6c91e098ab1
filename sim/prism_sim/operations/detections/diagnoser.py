"""A diagnoser with measured recall, precision and delay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from prism_sim.operations.causes import Symptom
from prism_sim.operations.detections.base import Detected, DetectionBase
from prism_sim.operations.failure import Failure


class Diagnoser(DetectionBase):
    """Finds a part of the failures with symptoms that it sees, and raises false alarms."""

    kind: Literal["diagnoser"] = "diagnoser"
    recall: float = Field(ge=0, le=1, description="part of the failures that it finds")
    precision: float = Field(default=1, gt=0, le=1, description="part of its alarms that are true")
    delay_s: float = Field(default=60, ge=0, description="time until it finds a failure [s]")
    sees: tuple[Symptom, ...] = Field(
        default=("hang", "slow"), min_length=1, description="symptoms that it can find"
    )

    def detect(self, failure: Failure) -> Detected | None:
        visible = failure.cause.symptom in self.sees and failure.found < self.recall
        return Detected(self.delay_s) if visible else None

    def false_alarms(self, failures: Sequence[Failure]) -> float:
        due = sum(failure.cause.symptom in self.sees for failure in failures)
        return due * self.recall * (1 - self.precision) / self.precision
