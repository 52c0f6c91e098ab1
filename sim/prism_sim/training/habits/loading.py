"""Data loading: the first stage's ranks read the next step's tokens while the present one runs.

One rank of each tensor-parallel group reads and shares inside the server. Only if storage is
slower than a step does anybody wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import simpy

from prism_sim.cluster.storage import Storage
from prism_sim.training.habits.base import Habit, Process
from prism_sim.truth import KIND, NO_MICRO_BATCH

if TYPE_CHECKING:
    from prism_sim.training.job import TrainingJob
    from prism_sim.training.worker import Worker

LOAD = KIND["load"]


class Loads(Habit):
    """Reads of the first stage of one job."""

    def __init__(self, job: TrainingJob, bytes_per_token: float, storage: Storage) -> None:
        self._job = job
        self._storage = storage
        tokens = job.model.micro_batches * job.model.local_tokens
        self._bytes = round(tokens * bytes_per_token)
        self._ways: dict[int, tuple[int, int]] = {}
        self._coming: dict[tuple[int, int], simpy.Event] = {}

    def before(self, worker: Worker, step: int) -> Process:
        if worker.stage:
            return
        now = self._coming.pop((worker.number, step), None) or self._read(worker, step)
        yield now
        if step + 1 in self._job.steps_ahead:
            self._coming[worker.number, step + 1] = self._read(worker, step + 1)

    def _read(self, worker: Worker, step: int) -> simpy.Event:
        job = self._job
        if worker.number not in self._ways:
            gpu = int(job.gpus[worker.stage, worker.member, 0])
            self._ways[worker.number] = self._storage.bundle(job.model.name, [gpu], writing=False)
        bundle, latency_ns = self._ways[worker.number]

        def over(start_ns: int, end_ns: int) -> int:
            times_ns, log = (start_ns, end_ns + latency_ns), job.log
            message = log.communication(worker.number)
            log.add(worker.number, step, NO_MICRO_BATCH, LOAD, *times_ns, message)
            return 0

        there = job.env.event()
        job.fabric.transfer(bundle, self._bytes, latency_ns, there, over)
        return there


def loading(job: TrainingJob) -> Sequence[Habit]:
    """The job's habit of reading its data, if it has one and there is storage."""
    wish = job.model.loading
    return [Loads(job, wish.bytes_per_token, job.storage)] if wish and job.storage else []
