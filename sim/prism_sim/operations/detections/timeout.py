"""Nothing but errors, people, and the time-out of the communication library."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.detections.base import Detected, DetectionBase
from prism_sim.operations.failure import Failure


class Timeout(DetectionBase):
    """What every platform has. NCCL's time-out is 30 or 60 min in practice (arXiv 2509.16293)."""

    kind: Literal["timeout"] = "timeout"
    error_s: float = Field(default=60, ge=0, description="time until an error is noticed [s]")
    timeout_s: float = Field(default=1800, gt=0, description="time-out of a collective [s]")
    notice_s: float = Field(
        default=86_400, gt=0, description="time until a person notices a slow job [s]"
    )
    spike_s: float = Field(
        default=3600, gt=0, description="time until a person notices a spike of the loss [s]"
    )

    def detect(self, failure: Failure) -> Detected:
        after_s = {
            "error": self.error_s,
            "hang": self.timeout_s,
            "slow": self.notice_s,
            "spike": self.spike_s,
            "manual": 0.0,
        }[failure.cause.symptom]
        return Detected(after_s, failure.cause.symptom in ("slow", "spike", "manual"))
