"""Decides which windows are diagnosed, and follows the jobs in the others.

A window is diagnosed if a job changes: its steps become longer or shorter, or do not come, or
traffic appears that the last diagnosis has not seen. It is also diagnosed from time to time, twice
as late each time if nothing has changed: at first in the next stride; in the end, after CALM
windows if no incident is open, and after half a window otherwise, so that each record is in two
windows. If a job with steps has no pattern, 30 windows are diagnosed in the time of one. However
many records a window has, diagnoses for these reasons take at most half of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from llmprism.batches.chains import ends_of
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Bools
from llmprism.watch.following import Followed
from llmprism.watch.settings import Settings
from llmprism.watch.state import State
from llmprism.watch.tracking.progress import Progress, has_ended, progress_of
from llmprism.watch.tracking.records import Numbers, Records, joined
from llmprism.watch.window import Span

CALM = 16  # windows from one diagnosis to the next, at most
STRANGE = 2.0  # times the traffic outside of jobs that the diagnosed window had
LITTLE = 0.001  # of all traffic
RECORD_NS = 100_000  # that each record adds to the time of a diagnosis, about
SHARE = 0.5  # of the time, for diagnoses of windows without a change

STEPS = ["job", "step", "start_ns", "end_ns", "ranks", "dp_end_ns"]
NO_STEPS = pd.DataFrame(columns=STEPS)


@dataclass
class Tracker:
    """What was learned of the jobs; nothing at first, and again after a failure."""

    settings: Settings
    _topology: Topology | None = None
    _learned: Learned | None = None
    _since_ns: int = 0  # end of the last window that was diagnosed
    _pause_ns: int = 0  # until the next one
    _has_changed: bool = True

    def forget(self) -> None:
        """Forget everything, so that the next window is diagnosed."""
        self._learned = None
        self._pause_ns = 0
        self._has_changed = True

    def add(self, table: pa.Table, topology: Topology) -> None:
        """Take in records that have come, between addresses of ``topology``."""
        if topology is not self._topology:
            self._topology = topology
            self.forget()
        if self._learned is not None:
            self._learned.add(table)

    def follow(self, span: Span) -> pd.DataFrame | None:
        """The steps that were completed; None if the window has to be diagnosed."""
        if span.end_ns >= self._since_ns + self._pause_ns:
            return None
        if self._learned is None:
            return NO_STEPS
        steps = self._learned.steps_until(span.end_ns)
        self._has_changed = self._learned.has_changed(span.end_ns, span.end_ns - self._since_ns)
        return None if self._has_changed else steps

    def learn(
        self, followed: Followed, tables: Iterable[pa.Table], span: Span, state: State
    ) -> None:
        """Learn from a window that was diagnosed; ``tables`` have its records and later ones."""
        assert self._topology is not None
        self._learned = learned_from(followed, tables, span, self._topology.addresses)
        settings = self.settings
        is_calm = all(one.stage == "resolved" for one in state.incidents)
        most_ns = CALM * settings.window_ns if is_calm else settings.window_ns // 2
        if self._learned is None:
            later_ns = settings.pause_ns
        else:
            later_ns = settings.stride_ns if self._has_changed else 2 * self._pause_ns
        least_ns = int(RECORD_NS * followed.diagnosis.intake.kept / SHARE)
        self._since_ns, self._pause_ns = span.end_ns, max(min(later_ns, most_ns), least_ns)
        self._has_changed = False


@dataclass
class Learned:
    """The jobs of a window that was diagnosed, and what came since.

    Attributes
    ----------
    seen, members : the addresses that sent anything, and those that sent for a job.
    outside_rate, rate : usual traffic that is not that of jobs, and all traffic [bytes/ns].
    """

    numbers: Numbers
    jobs: dict[str, Progress]
    seen: Bools
    members: Bools
    outside_rate: float
    rate: float
    _outside: float = 0.0
    _is_new: bool = False

    def add(self, table: pa.Table) -> None:
        """Take in records that have come."""
        self.take(self.numbers.of(table))

    def take(self, records: Records) -> None:
        """The same for records as numbers."""
        source = self.numbers.sources(records.lane)
        self._is_new |= not self.seen[source].all()
        self._outside += float(records.bytes[~self.members[source]].sum())
        for job in self.jobs.values():
            job.add(records)

    def steps_until(self, time_ns: int) -> pd.DataFrame:
        """The steps that were completed by a time."""
        rows = [
            (name, number, start_ns, end_ns + job.after_ns, job.ranks, end_ns)
            for name, job in self.jobs.items()
            for number, start_ns, end_ns in job.steps_until(time_ns)
        ]
        return pd.DataFrame(rows, columns=STEPS).astype(
            dict.fromkeys(("step", "start_ns", "end_ns", "ranks", "dp_end_ns"), np.int64)
        )

    def has_changed(self, time_ns: int, since_ns: int) -> bool:
        """Whether a job, or other traffic, is another one than it was ``since_ns`` before."""
        most = (STRANGE * self.outside_rate + LITTLE * self.rate) * since_ns
        jobs = self.jobs.values()
        return (
            self._is_new
            or self._outside > most
            or any(job.has_changed or job.is_overdue(time_ns) for job in jobs)
        )


def learned_from(
    followed: Followed, tables: Iterable[pa.Table], span: Span, addresses: Sequence[str]
) -> Learned | None:
    """What a window teaches; None if a job that takes steps has no pattern."""
    numbers = Numbers(addresses)
    records = joined([numbers.of(table) for table in tables])
    inside = records.end_ns < span.end_ns
    window = records.where(inside)
    jobs: dict[str, Progress] = {}
    diagnosis = followed.diagnosis
    for job, ends_ns in ends_of(diagnosis.steps).items():
        if has_ended(ends_ns, span.end_ns):
            continue
        one = progress_of(diagnosis, job, ends_ns, window, numbers)
        if one is None:
            return None
        jobs[job] = one
    seen, members = (np.zeros(len(addresses), np.bool_) for _ in range(2))
    source = numbers.sources(window.lane)
    seen[source] = True
    own = diagnosis.jobs[diagnosis.jobs["job"].isin([*jobs])]["address"]
    members[numbers.codes([*own.astype(str)])] = True
    lasts_ns = max(float(np.ptp(window.end_ns)) if len(window) else 0.0, 1.0)
    outside_rate, rate = (
        float(volume.sum()) / lasts_ns for volume in (window.bytes[~members[source]], window.bytes)
    )
    learned = Learned(numbers, jobs, seen, members, outside_rate, rate)
    learned.take(records.where(~inside))
    return learned
