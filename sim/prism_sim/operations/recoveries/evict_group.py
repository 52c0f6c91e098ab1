"""The whole parallel group of the failure is replaced, without a search."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.operations.failure import Failure
from prism_sim.operations.recoveries.base import RecoveryBase


class EvictGroup(RecoveryBase):
    """ByteRobust evicts too many servers rather than search for the right one."""

    searches: ClassVar[bool] = False
    kind: Literal["evict_group"] = "evict_group"
    group_servers: int = Field(ge=1, description="servers of a parallel group")
    spares: int = Field(ge=0, description="standby servers")
    requeue_s: float = Field(default=768, ge=0, description="restart if too few are left [s]")
    swap_s: float = Field(default=71, ge=0, description="restart with standby servers [s]")

    def standby(self, servers: int) -> int:
        return self.spares

    def unmet(self, servers: int) -> str | None:
        if self.group_servers > servers:
            return f"a group of {self.group_servers} servers is larger than the job of {servers}"
        if self.spares < self.group_servers:
            return f"{self.spares} spares cannot replace a group of {self.group_servers} servers"
        return None

    def evicts(self, failure: Failure) -> int:
        return self.group_servers if failure.cause.on_server else 0

    def restart_s(self, failure: Failure, served: bool) -> float:
        return self.swap_s if served else self.requeue_s
