"""Policies of recovery; a new kind is a class and one entry below."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from pydantic import Field

from prism_sim.operations import theory
from prism_sim.operations.failures import Failure
from prism_sim.registry import Registry, by_literal
from prism_sim.scenario.base import Closed


class RecoveryBase(Closed):
    """Brings the job back. A platform may have several; the first that handles a failure counts."""

    searches: ClassVar[bool] = True
    """Whether it needs the server that is to blame."""
    rolls_back: ClassVar[bool] = False
    """Whether it chooses an older checkpoint without people."""

    def handles(self, failure: Failure) -> bool:
        """Whether it brings the job back after this failure."""
        return True

    def standby(self, servers: int) -> int:
        """Standby servers for a job of ``servers``."""
        return 0

    def evicts(self, failure: Failure) -> int:
        """Servers that are replaced."""
        return int(failure.cause.on_server)

    def unmet(self, servers: int) -> str | None:
        """Why a job of ``servers`` cannot have this policy; None: it can."""
        return None

    @abstractmethod
    def restart_s(self, failure: Failure, served: bool) -> float:
        """Time to restart; ``served`` if standby servers replace all that are evicted."""


class Requeue(RecoveryBase):
    """The job is put into the queue again.

    ByteRobust's Table 7 has 454 to 768 s for 128 to 1,024 servers.
    """

    kind: Literal["requeue"] = "requeue"
    requeue_s: float = Field(default=768, ge=0, description="time to schedule and start again [s]")

    def restart_s(self, failure: Failure, served: bool) -> float:
        return self.requeue_s


class HotUpdate(RecoveryBase):
    """Processes restart in place, if no server has to be replaced.

    ByteRobust's Table 7 has 46 to 65 s for 128 to 1,024 servers.
    """

    kind: Literal["hot_update"] = "hot_update"
    update_s: float = Field(default=65, ge=0, description="time of a restart in place [s]")

    def handles(self, failure: Failure) -> bool:
        return not failure.cause.on_server

    def restart_s(self, failure: Failure, served: bool) -> float:
        return self.update_s


class Standby(RecoveryBase):
    """Servers that have started already replace the faulty ones.

    Their number is a quantile of the binomial distribution of faulty servers.
    """

    kind: Literal["standby"] = "standby"
    requeue_s: float = Field(default=768, ge=0, description="restart if no standby is left [s]")
    swap_s: float = Field(default=71, ge=0, description="restart with a standby server [s]")
    faulty: float = Field(default=0.0012, gt=0, lt=1, description="faulty part of the servers")
    quantile: float = Field(default=0.99, gt=0, lt=1, description="failures that standbys serve")

    def standby(self, servers: int) -> int:
        return theory.standby_size(servers, self.faulty, self.quantile)

    def restart_s(self, failure: Failure, served: bool) -> float:
        return self.swap_s if served else self.requeue_s


class EvictGroup(RecoveryBase):
    """The whole parallel group of the failure is replaced, without a search.

    ByteRobust evicts too many servers rather than search for the right one.
    """

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


class Rollback(RecoveryBase):
    """After a spike of the loss, the job goes back to an older checkpoint, and leaves data out.

    Acme (NSDI'24) and ByteRobust roll back by program; without it, people do it.
    """

    rolls_back: ClassVar[bool] = True
    kind: Literal["rollback"] = "rollback"
    restart_in_s: float = Field(default=65, ge=0, description="time of a restart in place [s]")

    def handles(self, failure: Failure) -> bool:
        return failure.cause.symptom == "spike"

    def restart_s(self, failure: Failure, served: bool) -> float:
        return self.restart_in_s


RECOVERIES: Registry[type[RecoveryBase]] = Registry(
    "prism_sim.operations.recoveries",
    Requeue,
    HotUpdate,
    Standby,
    EvictGroup,
    Rollback,
    name_of=by_literal,
)
"""Each kind by its name in a study."""
