"""The job is put into the queue again."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.failure import Failure
from prism_sim.operations.recoveries.base import RecoveryBase


class Requeue(RecoveryBase):
    """ByteRobust's Table 7 has 454 to 768 s for 128 to 1,024 servers."""

    kind: Literal["requeue"] = "requeue"
    requeue_s: float = Field(default=768, ge=0, description="time to schedule and start again [s]")

    def restart_s(self, failure: Failure, served: bool) -> float:
        return self.requeue_s
