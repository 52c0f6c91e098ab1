"""What the tools share: each prints for one job, and has two versions.

A version is a subclass that changes what the version prints in another way, so no tool asks for its
version. The times that tools get are true; they print those of their node's clock.
"""

from __future__ import annotations

from typing import ClassVar

from prism_sim.logs.job import LogJob


class Tool:
    """A program in one version, as it prints for one job.

    Attributes
    ----------
    version : its name in the truth.
    held_out : whether only the exam set has it.
    """

    version: ClassVar[str]
    held_out: ClassVar[bool] = False

    def __init__(self, job: LogJob) -> None:
        self.job = job

    @property
    def packages(self) -> str:
        """The folder of installed packages, which has the version of Python in its name."""
        return f"/usr/local/lib/python{self.job.versions['python']}/dist-packages"

    def of_rank(self, rank: int, time_ns: int) -> int:
        """The time that the clock of the rank's node shows."""
        return self.job.clock(self.job.node_of(rank), time_ns)
