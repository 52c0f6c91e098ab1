"""What the tools share: each prints for one job, and has two versions.

What a tool says is a table of ``statements.toml``, with what a version says in another way. A
version is a subclass that changes how its lines begin, so no tool asks for its version. The times
that tools get are true; they print those of their node's clock.
"""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

from prism_sim.logs.job import LogJob


@cache
def statements() -> dict[str, Any]:
    """The tables of ``statements.toml``."""
    text = files(__package__).joinpath("statements.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


class Tool:
    """A program in one version, as it prints for one job.

    Attributes
    ----------
    name : its table of statements.
    version : its name in the truth.
    held_out : whether only the exam set has it.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    held_out: ClassVar[bool] = False

    def __init__(self, job: LogJob) -> None:
        self.job = job

    def statement(self, name: str) -> Any:
        """What this version has under a name."""
        known = statements()[self.name]
        return known.get(self.version, {}).get(name, known[name])

    @property
    def packages(self) -> str:
        """The folder of installed packages, which has the version of Python in its name."""
        return f"/usr/local/lib/python{self.job.versions['python']}/dist-packages"

    def of_rank(self, rank: int, time_ns: int) -> int:
        """The time that the clock of the rank's node shows."""
        return self.job.clock(self.job.node_of(rank), time_ns)


class Trainer(Tool, ABC):
    """A framework of training."""

    @property
    def facts(self) -> dict[str, Any]:
        """What its statements may name of the job."""
        job = self.job
        sizes = {"ranks": job.ranks, "dp": job.dp, "pp": job.pp, "tp": job.tp, "batch": job.dp * 8}
        first, total, minutes = job.times.first, job.times.total, round(job.timeout_s / 60)
        numbers = {"first": first, "previous": first - 1, "total": total, "timeout": minutes}
        return {"user": job.user, **sizes, **numbers}

    @abstractmethod
    def printer(self) -> int:
        """The rank that prints iterations."""

    @abstractmethod
    def prints(self, statement: str, rank: int, time_ns: int, **values: Any) -> list[str]:
        """The lines of a statement of ``rank``."""

    @abstractmethod
    def iterations(self, rank: int, rows: list[tuple[int, int, float, float, float]]) -> list[str]:
        """A line for each (end [ns], iteration, length [ms], loss, gradient norm)."""
