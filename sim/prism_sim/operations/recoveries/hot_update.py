"""Processes restart in place, if no server has to be replaced."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from prism_sim.operations.failure import Failure
from prism_sim.operations.recoveries.base import RecoveryBase


class HotUpdate(RecoveryBase):
    """ByteRobust's Table 7 has 46 to 65 s for 128 to 1,024 servers."""

    kind: Literal["hot_update"] = "hot_update"
    update_s: float = Field(default=65, ge=0, description="time of a restart in place [s]")

    def handles(self, failure: Failure) -> bool:
        return not failure.cause.on_server

    def restart_s(self, failure: Failure, served: bool) -> float:
        return self.update_s
