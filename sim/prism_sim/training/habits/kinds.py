"""The habits: data loading, evaluation and checkpoints.

Data loading: the first stage's ranks read the next step's tokens during the present step.

One rank of each tensor-parallel group reads, and shares the data inside the server. Ranks wait
only if storage is slower than a step.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import simpy
from pydantic import Field

from prism_sim.cluster.network import Bundle
from prism_sim.cluster.storage import Storage
from prism_sim.training.context import JobContext, Process, StepWorker
from prism_sim.training.habits.base import Habit, HabitBase
from prism_sim.truth import NO_MICRO_BATCH

LOAD = "load"


class Loading(HabitBase):
    """Training data read from the storage servers, one step ahead."""

    key: ClassVar[str] = "loading"
    about: ClassVar[str] = (
        "Training data read from the scenario's storage. Left out: they are local."
    )
    spans: ClassVar[tuple[str, ...]] = (LOAD,)
    needs_storage: ClassVar[bool] = True

    bytes_per_token: float = Field(default=4.0, ge=1e-6, le=1e9)
    """Bytes read a token. Default: a 32-bit token number."""

    def start(self, context: JobContext) -> Habit:
        return Habit() if context.storage is None else _Loads(context, self, context.storage)


class _Loads(Habit):
    """Reads of the first stage of one job."""

    def __init__(self, context: JobContext, options: Loading, storage: Storage) -> None:
        self._context = context
        self._storage = storage
        tokens = context.config.micro_batches * context.config.local_tokens
        self._bytes = round(tokens * options.bytes_per_token)
        self._bundles: dict[int, Bundle] = {}
        self._coming: dict[tuple[int, int], simpy.Event] = {}

    def before(self, worker: StepWorker, step: int) -> Process:
        if worker.stage:
            return
        now = self._coming.pop((worker.number, step), None) or self._read(worker, step)
        yield now
        if step + 1 in self._context.progress.steps:
            self._coming[worker.number, step + 1] = self._read(worker, step + 1)

    def _read(self, worker: StepWorker, step: int) -> simpy.Event:
        context = self._context
        if worker.number not in self._bundles:
            gpu = int(context.gpus[worker.stage, worker.member, 0])
            bundle = self._storage.bundle(context.config.name, [gpu], writing=False)
            self._bundles[worker.number] = bundle
        number, latency_ns = self._bundles[worker.number]

        def over(start_ns: int, end_ns: int) -> int:
            times_ns, log = (start_ns, end_ns + latency_ns), context.log
            message = log.communication(worker.number)
            log.add(worker.number, step, NO_MICRO_BATCH, LOAD, *times_ns, message)
            return 0

        arrived = context.env.event()
        context.fabric.transfer(number, self._bytes, latency_ns, arrived, over)
        return arrived


# Evaluation: after every n steps, forward passes through the whole pipeline, without an update.
#
# Activations are sent as in training, gradients are not. There is no data-parallel traffic, except
# fully sharded parameters, which are gathered as in every forward pass.


class Evaluation(HabitBase):
    """Forward passes over held-out data, after every n steps."""

    key: ClassVar[str] = "evaluation"
    about: ClassVar[str] = "Pauses for evaluation. Left out: none."
    spans: ClassVar[tuple[str, ...]] = ("eval_fwd",)

    every: int = Field(ge=1, le=1_000_000_000, description="Steps from one evaluation to the next.")
    micro_batches: int = Field(ge=1, le=1_000_000)
    """Micro-batches that each replica evaluates."""

    def start(self, context: JobContext) -> Habit:
        return _Evaluates(context, self)


class _Evaluates(Habit):
    """Evaluates after every n steps, except after the last."""

    def __init__(self, context: JobContext, options: Evaluation) -> None:
        self._progress = context.progress
        self._options = options

    def after(self, worker: StepWorker, step: int) -> Process:
        if (step + 1) % self._options.every == 0 and step != self._progress.steps[-1]:
            yield from worker.evaluate(step, self._options.micro_batches)


# Checkpoints: after every n steps each rank writes its part of the state to storage.
#
# With a sharded optimizer every rank writes its own part; otherwise the first replica writes
# for all. A synchronous save makes all ranks wait until the last one has written. An asynchronous
# one runs during the following steps; only a second save, or the job's end, waits for it.
# A restart begins with the last save that all ranks have finished: each rank reads its part.
# If several groups of ranks hold one copy each (hybrid sharding), every rank writes a part of one.

SAVE, RESTORE = "checkpoint", "restore"


class Checkpoint(HabitBase):
    """The model and its optimizer's state, written to the storage servers."""

    key: ClassVar[str] = "checkpoint"
    about: ClassVar[str] = "Saves to the scenario's storage. Left out: none."
    spans: ClassVar[tuple[str, ...]] = (SAVE, RESTORE)
    needs_storage: ClassVar[bool] = True
    saves_progress: ClassVar[bool] = True

    every: int = Field(ge=1, le=1_000_000_000, description="Steps from one save to the next.")
    mode: Literal["sync", "async"] = "sync"
    """sync: training waits until all ranks have written. async: it continues, and waits only if the
    previous save is not finished."""
    bytes_per_parameter: float = Field(default=14.0, ge=1e-6, le=1e6)
    """Bytes saved a parameter. Default: bf16 parameter, fp32 master copy and Adam's two moments
    (ZeRO, SC'20, section 3.1, without gradients)."""

    def start(self, context: JobContext) -> Habit:
        return Habit() if context.storage is None else _Saves(context, self, context.storage)


class _Saves(Habit):
    """Writes of all workers of one job."""

    def __init__(self, context: JobContext, options: Checkpoint, storage: Storage) -> None:
        self._context = context
        self._options = options
        self._storage = storage
        self._workers = context.config.stages * context.config.members
        self._bundles: dict[tuple[int, bool], Bundle] = {}
        self._writing: dict[int, simpy.Event] = {}
        self._all_written: dict[int, simpy.Event] = {}
        self._written: dict[int, int] = {}

    def before(self, worker: StepWorker, step: int) -> Process:
        progress = self._context.progress
        if step == progress.steps.start and progress.saved:
            start_ns = self._context.env.now
            yield self._transfer(worker, self._held_by(worker), writing=False)
            self._log(worker, step, RESTORE, start_ns)

    def after(self, worker: StepWorker, step: int) -> Process:
        if (step + 1) % self._options.every:
            return
        start_ns = self._context.env.now
        yield from self.finish(worker)
        written = self._transfer(worker, self._written_by(worker), writing=True)
        all_written = self._all_written.setdefault(step, self._context.env.event())
        assert written.callbacks is not None
        iterations = step + 1 - self._context.progress.lost
        written.callbacks.append(lambda _: self._note(step, iterations))
        if self._options.mode == "sync":
            yield all_written
            self._log(worker, step, SAVE, start_ns)
        else:
            written.callbacks.append(lambda _: self._log(worker, step, SAVE, start_ns))
            self._writing[worker.number] = written

    def finish(self, worker: StepWorker) -> Process:
        """Wait until the present write of ``worker`` has arrived."""
        before = self._writing.pop(worker.number, None)
        if before is not None:
            yield before

    def _transfer(self, worker: StepWorker, size: int, *, writing: bool) -> simpy.Event:
        """Start a flow of ``size`` bytes per rank; the event fires when all have arrived."""
        context = self._context
        arrived = context.env.event()
        if not size:
            return arrived.succeed()
        key = (worker.number, writing)
        if key not in self._bundles:
            gpus = context.gpus[worker.stage, worker.member].tolist()
            self._bundles[key] = self._storage.bundle(context.config.name, gpus, writing=writing)
        number, latency_ns = self._bundles[key]
        context.fabric.transfer(number, size, latency_ns, arrived)
        return arrived

    def _note(self, step: int, iterations: int) -> None:
        """Count one finished write; after the last, a checkpoint contains ``iterations``."""
        self._written[step] = self._written.get(step, 0) + 1
        if self._written[step] == self._workers:
            del self._written[step]
            self._all_written.pop(step).succeed()
            self._context.progress.saved = iterations

    def _log(self, worker: StepWorker, step: int, kind: str, start_ns: int) -> None:
        times_ns, log = (start_ns, self._context.env.now), self._context.log
        message = log.communication(worker.number)
        log.add(worker.number, step, NO_MICRO_BATCH, kind, *times_ns, message)

    def _held_by(self, worker: StepWorker) -> int:
        """Bytes of a checkpoint that each rank of ``worker`` needs."""
        config = self._context.config
        shards = self._context.strategy.optimizer_shards(config)
        experts = worker.expert_parameters // max(1, shards // config.ep)
        return round((worker.parameters // shards + experts) * self._options.bytes_per_parameter)

    def _written_by(self, worker: StepWorker) -> int:
        """Bytes of a checkpoint that each rank of ``worker`` writes."""
        config = self._context.config
        dense = worker.parameters
        if self._context.strategy.sharded:
            dense //= config.members
        elif worker.member:
            dense = 0
        experts = worker.expert_parameters // (config.members // config.ep)
        return round((dense + experts) * self._options.bytes_per_parameter)
