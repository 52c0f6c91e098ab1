"""The hosts of each job, and the time since which its processes exist.

Control traffic, which does not pass through the fabric, depends on these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prism_sim.scenario.cluster import Cluster
from prism_sim.scenario.library import Transport

ALWAYS_NS = -(2**62)


@dataclass(frozen=True)
class JobHosts:
    """The hosts of a job between two restarts.

    Attributes
    ----------
    job : its name.
    start_ns : begin of its first step [simulation ns].
    nics : number of the NIC that each rank's process uses, shape (ranks,).
    transport : protocol of the training traffic.
    restarts : number of restarts so far.
    processes_since_ns : start of its processes [simulation ns]; those before the first
        restart have always existed.
    """

    job: str
    start_ns: int
    nics: NDArray[np.int64]
    transport: Transport = "roce"
    restarts: int = 0
    processes_since_ns: int = ALWAYS_NS

    def after_restart(self, start_ns: int, processes_since_ns: int) -> JobHosts:
        """The same hosts with new processes, which start to train at ``start_ns``."""
        return replace(
            self,
            start_ns=start_ns,
            restarts=self.restarts + 1,
            processes_since_ns=processes_since_ns,
        )

    def rendezvous_time(self, before_s: float, lasts_s: float) -> tuple[float, float]:
        """Time between the start of a rendezvous and the first step, and its duration [s].

        The values asked for, if the processes have existed for long enough.
        """
        had_s = (self.start_ns - self.processes_since_ns) / 1e9
        return (before_s, lasts_s) if before_s <= had_s else (had_s, min(lasts_s, had_s))


class AJob(Protocol):
    """The properties of a job that the collector needs."""

    @property
    def name(self) -> str: ...
    @property
    def start_s(self) -> float: ...
    @property
    def transport(self) -> Transport | None:
        """Transport that the job gives itself."""

    @property
    def wire_transport(self) -> Transport:
        """The same, or the default of such jobs."""


def hosts_of(
    job: AJob, gpus: NDArray[np.int64], cluster: Cluster, transport: Transport | None = None
) -> JobHosts:
    """The hosts of a job on ``gpus``: processes use the first NIC of their server.

    ``transport`` is used by jobs that give none themselves.
    """
    nics = gpus.ravel() // cluster.gpus_per_server * cluster.ports_per_server
    used = job.transport or transport or job.wire_transport
    return JobHosts(job.name, round(job.start_s * 1e9), nics, used)
