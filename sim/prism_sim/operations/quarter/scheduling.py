"""A queue of jobs on one pool of GPUs.

Jobs of reserved types come first, and may use all GPUs. All others leave what remains of the
reserved part. A job that does not fit waits, and smaller ones behind it may start (backfilling).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

import simpy

from prism_sim.operations.quarter.jobs import Job, jobs_of
from prism_sim.operations.quarter.study import Quarter
from prism_sim.operations.theory import SECONDS_A_DAY

Row = dict[str, Any]


class Queue:
    """Runs the jobs of a quarter."""

    def __init__(self, study: Quarter, seed: int) -> None:
        self._env = simpy.Environment()
        self._jobs = jobs_of(study, seed)
        self._free = study.gpus
        self._reserved = int(study.gpus * study.reserved)
        self._ends_s = study.days * SECONDS_A_DAY
        self._waiting: tuple[deque[Job], deque[Job]] = (deque(), deque())
        self._rows: list[Row] = []

    def run(self) -> list[Row]:
        """A row for each job that started: type, GPUs, times [s], outcome."""
        self._env.process(self._submit())
        self._env.run(until=self._ends_s)
        return self._rows

    def _submit(self) -> Generator[simpy.Event, Any, None]:
        for job in self._jobs:
            if job.at_s > self._env.now:
                yield self._env.timeout(job.at_s - self._env.now)
            self._waiting[0 if job.type.reserved else 1].append(job)
            self._start()

    def _start(self) -> None:
        """Start all waiting jobs that fit, the reserved ones first."""
        for waiting in self._waiting:
            for _ in range(len(waiting)):
                job = waiting.popleft()
                kept = 0 if job.type.reserved else max(0, self._reserved)
                if job.gpus <= self._free - kept:
                    self._begin(job)
                else:
                    waiting.append(job)

    def _hold(self, job: Job, gpus: int) -> None:
        """Take GPUs for ``job``, or give them back if negative."""
        self._free -= gpus
        self._reserved -= gpus * job.type.reserved

    def _begin(self, job: Job) -> None:
        self._hold(job, job.gpus)
        now_s = self._env.now
        held_s = min(job.run_s, self._ends_s - now_s)
        times = {"queue_s": now_s - job.at_s, "run_s": job.run_s, "gpu_s": job.gpus * held_s}
        ended = {"outcome": job.outcome, "by_server": job.by_server}
        self._rows.append({"type": job.type.name, "gpus": job.gpus, **times, **ended})
        self._env.process(self._run(job))

    def _run(self, job: Job) -> Generator[simpy.Event, Any, None]:
        yield self._env.timeout(job.run_s)
        self._hold(job, -job.gpus)
        self._start()
