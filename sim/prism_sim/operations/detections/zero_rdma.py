"""A job without RDMA traffic for some minutes hangs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.detections.base import Detected, DetectionBase
from prism_sim.operations.failure import Failure


class ZeroRdma(DetectionBase):
    """ByteRobust's rule: no traffic for ten minutes (arXiv 2509.16293)."""

    kind: Literal["zero_rdma"] = "zero_rdma"
    silence_s: float = Field(default=600, gt=0, description="time without traffic [s]")

    def detect(self, failure: Failure) -> Detected | None:
        return Detected(self.silence_s) if failure.cause.symptom == "hang" else None
