"""Who trains where and from when: what traffic beside the training itself depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prism_sim.scenario.cluster import Cluster


@dataclass(frozen=True)
class Crew:
    """The hosts of a job.

    Attributes
    ----------
    job : its name.
    start_ns : begin of its first step [simulation ns].
    hosts : number of the NIC that each rank's process talks through, shape (ranks,).
    life : how often the job has begun anew.
    """

    job: str
    start_ns: int
    hosts: NDArray[np.int64]
    life: int = 0

    def again(self, start_ns: int) -> Crew:
        """The same hosts with new processes, which begin at ``start_ns``."""
        return replace(self, start_ns=start_ns, life=self.life + 1)


def crew(job: str, start_s: float, gpus: NDArray[np.int64], cluster: Cluster) -> Crew:
    """The crew of a job on ``gpus``: processes talk through the first NIC of their server."""
    hosts = gpus.ravel() // cluster.gpus_per_server * cluster.nics_per_server
    return Crew(job, round(start_s * 1e9), hosts)
