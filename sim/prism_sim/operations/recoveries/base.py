"""The contract of a policy of recovery."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from prism_sim.operations.failure import Failure
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
