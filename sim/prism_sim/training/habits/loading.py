"""Data loading: the first stage's ranks read the next step's tokens during the present step.

One rank of each tensor-parallel group reads, and shares the data inside the server. Ranks wait
only if storage is slower than a step.
"""

from __future__ import annotations

from typing import ClassVar

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

    bytes_per_token: float = Field(
        default=4.0,
        ge=1e-6,
        le=1e9,
        description="Bytes read a token. Default: a 32-bit token number.",
    )

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
