"""Checkpoints: every so many steps each rank writes its part of the state to storage.

With a sharded optimizer every rank has a part of its own; without, the first replica writes
for all. A synchronous save holds everybody up until the last one has written; an asynchronous
one runs beside the following steps, and only a second save, or the job's end, has to wait for it.
What everybody has written is what a job that fails begins again with: each rank reads its part.
Where several groups of ranks share a copy each (hybrid sharding), all of them write a part of one.
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

SAVE, RESTORE = KIND["checkpoint"], KIND["restore"]


class Saves(Habit):
    """Writes of all workers of one job."""

    def __init__(self, job: TrainingJob, wish: Checkpoint, storage: Storage) -> None:
        self._job = job
        self._wish = wish
        self._storage = storage
        self._ways: dict[tuple[int, bool], tuple[int, int]] = {}
        self._writing: dict[int, simpy.Event] = {}
        self._everybody: dict[int, simpy.Event] = {}
        self._there: dict[int, int] = {}

    def before(self, worker: Worker, step: int) -> Process:
        if step == self._job.steps_ahead.start and self._job.saved:
            start_ns = self._job.env.now
            yield self._carry(worker, self._held_by(worker), writing=False)
            self._log(worker, step, RESTORE, start_ns)

    def after(self, worker: Worker, step: int) -> Process:
        if (step + 1) % self._wish.every:
            return
        start_ns = self._job.env.now
        yield from self.finish(worker)
        written = self._carry(worker, self._written_by(worker), writing=True)
        everybody = self._everybody.setdefault(step, self._job.env.event())
        assert written.callbacks is not None
        iterations = step + 1 - self._job.lost
        written.callbacks.append(lambda _: self._note(step, iterations))
        if self._wish.mode == "sync":
            yield everybody
            self._log(worker, step, SAVE, start_ns)
        else:
            written.callbacks.append(lambda _: self._log(worker, step, SAVE, start_ns))
            self._writing[worker.number] = written

    def finish(self, worker: Worker) -> Process:
        """Wait until what ``worker`` is writing has arrived."""
        before = self._writing.pop(worker.number, None)
        if before is not None:
            yield before

    def _carry(self, worker: Worker, size: int, *, writing: bool) -> simpy.Event:
        """Start a flow of ``size`` bytes a rank; the event fires when all have arrived."""
        job = self._job
        arrived = job.env.event()
        if not size:
            return arrived.succeed()
        key = (worker.number, writing)
        if key not in self._ways:
            gpus = job.gpus[worker.stage, worker.member].tolist()
            self._ways[key] = self._storage.bundle(job.model.name, gpus, writing=writing)
        bundle, latency_ns = self._ways[key]
        job.fabric.transfer(bundle, size, latency_ns, arrived)
        return arrived

    def _note(self, step: int, iterations: int) -> None:
        """One more has written; when all have, a checkpoint holds ``iterations``."""
        job = self._job
        self._there[step] = self._there.get(step, 0) + 1
        if self._there[step] == len(job.workers):
            del self._there[step]
            self._everybody.pop(step).succeed()
            job.saved = iterations

    def _log(self, worker: Worker, step: int, kind: int, start_ns: int) -> None:
        times_ns, log = (start_ns, self._job.env.now), self._job.log
        message = log.communication(worker.number)
        log.add(worker.number, step, NO_MICRO_BATCH, kind, *times_ns, message)

    def _held_by(self, worker: Worker) -> int:
        """What each rank of ``worker`` needs of a checkpoint [bytes]."""
        model, cost = self._job.model, worker.cost
        shards = model.optimizer_shards
        experts = sum(sum(chunk.expert_parameters) for chunk in cost.chunks)
        parameters = sum(cost.parameters) // shards + experts // max(1, shards // model.ep)
        return round(parameters * self._wish.bytes_per_parameter)

    def _written_by(self, worker: Worker) -> int:
        """What each rank of ``worker`` writes of a checkpoint [bytes]."""
        model, cost = self._job.model, worker.cost
        dense = sum(cost.parameters)
        if model.zero_stage:
            dense //= model.members
        elif worker.member:
            dense = 0
        holders = model.members // model.ep
        experts = sum(sum(chunk.expert_parameters) for chunk in cost.chunks) // holders
        return round((dense + experts) * self._wish.bytes_per_parameter)


def saving(job: TrainingJob) -> Sequence[Habit]:
    """The job's habit of saving, if it has one and there is storage."""
    wish = job.model.checkpoint
    return [Saves(job, wish, job.storage)] if wish and job.storage else []
