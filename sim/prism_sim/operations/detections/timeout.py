"""Nothing but errors and the time-out of the communication library."""

from __future__ import annotations

from typing import Literal

from prism_sim.operations.detections.base import Detected, DetectionBase
from prism_sim.operations.failure import Failure


class Timeout(DetectionBase):
    """NCCL's time-out is 30 or 60 minutes in practice (arXiv 2509.16293)."""

    kind: Literal["timeout"] = "timeout"

    def detect(self, failure: Failure) -> Detected:
        return self.shown(failure)
