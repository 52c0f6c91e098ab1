"""Who trains where and from when: what traffic beside the training itself depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prism_sim.scenario.cluster import Cluster

ALWAYS_NS = -(2**62)


@dataclass(frozen=True)
class Crew:
    """The hosts of a job.

    Attributes
    ----------
    job : its name.
    start_ns : begin of its first step [simulation ns].
    hosts : number of the NIC that each rank's process talks through, shape (ranks,).
    life : how often the job has begun anew.
    born_ns : since when its processes exist; those of the first life always did [simulation ns].
    """

    job: str
    start_ns: int
    hosts: NDArray[np.int64]
    life: int = 0
    born_ns: int = ALWAYS_NS

    def again(self, start_ns: int, born_ns: int) -> Crew:
        """The same hosts with new processes from ``born_ns`` on, which begin at ``start_ns``."""
        return replace(self, start_ns=start_ns, life=self.life + 1, born_ns=born_ns)

    def time_to_meet(self, before_s: float, lasts_s: float) -> tuple[float, float]:
        """How long before the first step a meeting begins, and how long it lasts [s].

        As wished, if the processes exist for long enough.
        """
        had_s = (self.start_ns - self.born_ns) / 1e9
        return (before_s, lasts_s) if before_s <= had_s else (had_s, min(lasts_s, had_s))


def crew(job: str, start_s: float, gpus: NDArray[np.int64], cluster: Cluster) -> Crew:
    """The crew of a job on ``gpus``: processes talk through the first NIC of their server."""
    hosts = gpus.ravel() // cluster.gpus_per_server * cluster.nics_per_server
    return Crew(job, round(start_s * 1e9), hosts)
