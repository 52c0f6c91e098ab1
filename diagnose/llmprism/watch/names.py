"""The names that people know: of jobs from a scheduler, of switches from hosts and points.

Names of jobs are read again whenever their file changes, or every minute from an API of Kubernetes;
a source that fails leaves the names of before.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from llmprism.ingest.scheduler_jobs import fetched, read_names
from llmprism.io.asking import is_address
from llmprism.io.topology import ScheduledJob
from llmprism.network.hosts import read_hosts
from llmprism.watch.logging import reason_of
from prism_common.errors import Problem, UserError

_AGAIN_S = 60.0


@dataclass(frozen=True)
class Names:
    """Where names come from.

    Attributes
    ----------
    jobs : a file, or the address of an API of Kubernetes; None for none.
    hosts : a file of addresses and names, as ``/etc/hosts``.
    points : names of switches by what records call them.
    """

    jobs: str | None = None
    hosts: Path | None = None
    points: Mapping[str, str] = field(default_factory=dict)


def jobs_of(place: str) -> list[ScheduledJob]:
    """The jobs of a scheduler.

    Raises
    ------
    UserError : they cannot be read.
    """
    if is_address(place):
        return fetched(place)
    return read_names(Path(place))


@dataclass
class KnownNames:
    """The names at present, and why the last change was refused, if it was."""

    names: Names
    scheduled: Sequence[ScheduledJob] = ()
    points: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    _stamp: object = None
    _read_s: float = 0.0

    def read(self, switches: frozenset[str]) -> None:
        """Read all names; ``switches`` are those of the topology.

        Raises
        ------
        UserError : a file cannot be read.
        """
        hosts = read_hosts(self.names.hosts) if self.names.hosts else {}
        of_hosts = {address: name for name, address in hosts.items() if name in switches}
        self.points = {**of_hosts, **self.names.points}
        if self.names.jobs is not None:
            self._stamp, self._read_s = self._present(), time.monotonic()
            self.scheduled = jobs_of(self.names.jobs)

    def refresh(self) -> None:
        """Read the names of jobs again if they may have changed; what is wrong changes nothing."""
        if self.names.jobs is None or self._present() == self._stamp:
            return
        self._stamp, self._read_s = self._present(), time.monotonic()
        if is_address(self.names.jobs):  # which may answer late
            Thread(target=self._read_jobs, args=(self.names.jobs,), daemon=True).start()
        else:
            self._read_jobs(self.names.jobs)

    def _read_jobs(self, place: str) -> None:
        try:
            self.scheduled, self.problem = jobs_of(place), ""
        except Exception as error:  # whatever others wrote, the monitor goes on
            self.problem = f"the names of jobs are those of before: {reason_of(error)}"

    def _present(self) -> object:
        """What changes when the names may have changed."""
        place = str(self.names.jobs)
        if is_address(place):
            is_due = time.monotonic() >= self._read_s + _AGAIN_S
            return object() if is_due else self._stamp
        return stamp_of(Path(place)) or self._stamp


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file does; None if there is none: a pipe would keep who reads it."""
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def present(path: Path) -> Path:
    """The path of a file that is read again.

    Raises
    ------
    UserError : there is none.
    """
    if stamp_of(path) is None:
        raise UserError(Problem("there is no file", str(path), "put it where it was"))
    return path
