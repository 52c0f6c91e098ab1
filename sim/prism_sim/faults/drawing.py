"""What a campaign gives to the kinds of faults that it draws.

Each kind takes what it needs: a place, a window, a severity. All follow from the seed and from the
number of the fault, so a further fault changes no earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_sim.scenario.names import leaf_name, server_name, spine_name
from prism_sim.scenario.setting import JobOutline, Setting


@dataclass(frozen=True)
class Drawing:
    """One fault that is drawn, by a campaign or for a world of a family.

    Attributes
    ----------
    stream : random numbers of this fault.
    setting : the cluster and its jobs.
    position : where in the cluster it is, in [0, 1); some positions occur more often than others.
    from_s, to_s : its window.
    factor : its severity, as a fraction of the healthy speed.
    step_s : length of a step of the affected job [s], about.
    every_steps : steps from one occurrence to the next, for a fault that comes and goes; None: ten
        occurrences in the window.
    """

    stream: np.random.Generator
    setting: Setting
    position: float
    from_s: float
    to_s: float
    factor: float
    step_s: float = 1.0
    every_steps: int | None = None

    @property
    def lasts_s(self) -> float:
        """Length of the window [s]."""
        return self.to_s - self.from_s

    @property
    def every_s(self) -> float:
        """Time from one occurrence to the next [s]."""
        tenth_s = self.lasts_s / 10
        return tenth_s if self.every_steps is None else self.every_steps * self.step_s

    @property
    def server(self) -> int:
        """Number of a server."""
        return int(self.position * self.setting.cluster.servers)

    @property
    def server_name(self) -> str:
        """Name of that server."""
        return server_name(self.server)

    @property
    def nic(self) -> int:
        """Number of a NIC in the server."""
        return int(self.stream.integers(self.setting.cluster.nics_per_server))

    @property
    def link(self) -> tuple[str, str]:
        """A NIC of the server, and its leaf."""
        nic = self.nic
        leaf = self.setting.cluster.leaf_of(self.server, nic)
        return self.setting.cluster.address_of(self.server, nic), leaf_name(int(leaf))

    @property
    def leaf(self) -> str:
        """Name of a leaf."""
        return leaf_name(int(self.position * self.setting.cluster.leaves))

    @property
    def switch(self) -> str:
        """Name of a leaf, or of a spine if there are several leaves."""
        cluster = self.setting.cluster
        spines = cluster.spines * cluster.pods if cluster.leaves_per_plane > 1 else 0
        number = int(self.position * (cluster.leaves + spines))
        below = number < cluster.leaves
        return leaf_name(number) if below else spine_name(number - cluster.leaves)

    @property
    def job(self) -> JobOutline:
        """A job; larger ones are more likely."""
        return self.member[0]

    @property
    def rank(self) -> tuple[str, int]:
        """A job, and one of its ranks."""
        job, rank = self.member
        return job.name, rank

    @property
    def member(self) -> tuple[JobOutline, int]:
        """A job, and the number of one of its ranks; larger jobs are more likely."""
        place = int(self.position * sum(job.ranks for job in self.setting.jobs))
        for job in self.setting.jobs:
            if place < job.ranks:
                return job, place
            place -= job.ranks
        raise ValueError("there is no job")
