"""After a spike of the loss, the job goes back to an older checkpoint, and leaves data out."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.operations.failure import Failure
from prism_sim.operations.recoveries.base import RecoveryBase


class Rollback(RecoveryBase):
    """Acme (NSDI'24) and ByteRobust roll back by program; without it, people do it."""

    rolls_back: ClassVar[bool] = True
    kind: Literal["rollback"] = "rollback"
    restart_in_s: float = Field(default=65, ge=0, description="time of a restart in place [s]")

    def handles(self, failure: Failure) -> bool:
        return failure.cause.symptom == "spike"

    def restart_s(self, failure: Failure, served: bool) -> float:
        return self.restart_in_s
