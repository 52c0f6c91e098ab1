"""The contract of a policy of recovery."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from prism_sim.operations.failure import Failure
from prism_sim.scenario.base import Closed


class RecoveryBase(Closed):
    """Brings the job back, from its last checkpoint."""

    searches: ClassVar[bool] = True
    """Whether it needs the server that is to blame."""

    def standby(self, servers: int) -> int:
        """Standby servers for a job of ``servers``."""
        return 0

    def evicts(self, failure: Failure) -> int:
        """Servers that are replaced."""
        return int(failure.cause.on_server)

    @abstractmethod
    def restart_s(self, failure: Failure, served: bool) -> float:
        """Time to restart; ``served`` if standby servers replace all that are evicted."""
