"""A job whose ranks follow an imported trace."""

from __future__ import annotations

from pydantic import Field

from prism_sim.scenario.base import Closed
from prism_sim.scenario.graph import Graph
from prism_sim.scenario.job import JobConfig, Placement
from prism_sim.scenario.library import Transport


class TracedJobConfig(Closed):
    """A job whose ranks follow the graphs of a trace, instead of a model and a schedule."""

    name: str = Field(min_length=1, max_length=64)
    """Name of the job; unique in the scenario."""
    iterations: int = Field(default=1, ge=1, le=1_000_000_000)
    """Number of repetitions of the whole trace. A rank begins the next one when all its tasks have
    finished."""
    placement: Placement = "packed"
    """As for other jobs. Ranks are placed in their order."""
    start_s: float = Field(default=0.0, ge=0, le=1e8)
    """Start of the first iteration [s]."""
    after: str | None = None
    """Name of a job above whose GPUs this one may use as well, since it starts later."""
    transport: Transport | None = None
    """Transport protocol of the job's traffic: roce (RoCE v2) or tcp. Left out: roce, unless the
    telemetry effect headers gives another."""

    @property
    def wire_transport(self) -> Transport:
        """Transport protocol of the job's traffic."""
        return self.transport or "roce"

    @property
    def found(self) -> Graph | None:
        """The content of the trace; None if the file has not been read."""
        return None

    @property
    def graph(self) -> Graph:
        """The content of the trace, after it was read."""
        raise NotImplementedError

    @property
    def steps(self) -> int:
        """Training steps of all iterations."""
        return self.iterations * (self.found.steps if self.found else 1)

    @property
    def ranks(self) -> int:
        """GPUs the job runs on."""
        return len(self.found.ranks) if self.found else 1

    @property
    def tp(self) -> int:
        """Number of neighbouring ranks that must share one server."""
        return self.found.tp if self.found else 1

    @property
    def stages(self) -> int:
        """Rows of the grid of ranks: always one."""
        return 1

    @property
    def varies_lengths(self) -> bool:
        """A trace has the messages that it has."""
        return False

    @property
    def can_fail(self) -> bool:
        """A trace has one attempt."""
        return False

    @property
    def shares_experts(self) -> bool:
        """A trace has the loads that it has."""
        return False

    @property
    def members(self) -> int:
        """Groups of such neighbours."""
        return self.ranks // self.tp

    @property
    def size(self) -> str:
        """The size of the job as text."""
        return f"the trace's {self.ranks} ranks"


AnyJobConfig = JobConfig | TracedJobConfig
"""A job, described by a model or by a trace."""
