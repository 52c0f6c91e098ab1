"""Checkpoints: every so many steps each rank writes its part of the state to storage.

With a sharded optimizer every rank has a part of its own; without, the first replica writes
for all. A synchronous save holds everybody up until the last one has written; an asynchronous
one runs beside the following steps, and only a second save has to wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import simpy

from prism_sim.cluster.storage import Storage
from prism_sim.scenario.habits import Checkpoint
from prism_sim.training.habits.base import Habit, Process
from prism_sim.truth import KIND, NO_MICRO_BATCH

if TYPE_CHECKING:
    from prism_sim.training.job import TrainingJob
    from prism_sim.training.worker import Worker

SAVE = KIND["checkpoint"]


class Saves(Habit):
    """Writes of all workers of one job."""

    def __init__(self, job: TrainingJob, wish: Checkpoint, storage: Storage) -> None:
        self._job = job
        self._wish = wish
        self._storage = storage
        self._ways: dict[int, tuple[int, int]] = {}
        self._writing: dict[int, simpy.Event] = {}
        self._everybody: dict[int, tuple[list[int], simpy.Event]] = {}

    def after(self, worker: Worker, step: int) -> Process:
        if (step + 1) % self._wish.every:
            return
        start_ns = self._job.env.now
        before = self._writing.pop(worker.number, None)
        if before is not None:
            yield before
        written = self._write(worker, step, start_ns)
        if self._wish.mode == "sync":
            yield written
            yield self._all_have_written(worker, step)
            self._job.log.add(
                worker.number, step, NO_MICRO_BATCH, SAVE, start_ns, self._job.env.now
            )
        else:
            self._writing[worker.number] = written

    def _write(self, worker: Worker, step: int, start_ns: int) -> simpy.Event:
        """Start this worker's flows; the event fires when they have arrived."""
        job = self._job
        written = job.env.event()
        size = self._bytes_of(worker)
        if not size:
            return written.succeed()
        if worker.number not in self._ways:
            gpus = job.gpus[worker.stage, worker.member].tolist()
            self._ways[worker.number] = self._storage.way(job.model.name, gpus, writing=True)
        bundle, latency_ns = self._ways[worker.number]

        def over(_: int, end_ns: int) -> int:
            if self._wish.mode == "async":
                arrived_ns = end_ns + latency_ns
                job.log.add(worker.number, step, NO_MICRO_BATCH, SAVE, start_ns, arrived_ns)
            return 0

        job.fabric.transfer(bundle, size, latency_ns, written, over)
        return written

    def _bytes_of(self, worker: Worker) -> int:
        """What each rank of ``worker`` writes [bytes]."""
        model, cost = self._job.model, worker.cost
        dense = sum(cost.parameters)
        if model.zero_stage:
            dense //= model.members
        elif worker.member:
            dense = 0
        holders = model.members // model.ep
        experts = sum(sum(chunk.expert_parameters) for chunk in cost.chunks) // holders
        return round((dense + experts) * self._wish.bytes_per_parameter)

    def _all_have_written(self, worker: Worker, step: int) -> simpy.Event:
        there, event = self._everybody.setdefault(step, ([], self._job.env.event()))
        there.append(worker.number)
        if len(there) == len(self._job.workers):
            del self._everybody[step]
            event.succeed()
        return event


def saving(job: TrainingJob) -> Sequence[Habit]:
    """The job's habit of saving, if it has one and there is storage."""
    wish = job.model.checkpoint
    return [Saves(job, wish, job.storage)] if wish and job.storage else []
