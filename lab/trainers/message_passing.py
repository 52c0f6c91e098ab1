"""Data and pipeline parallelism with OpenMPI through mpi4py; it shares no code with gloo.

    mpirun ... python -m lab.trainers.message_passing PLAN.json

All-reduces are OpenMPI's own: which algorithm it takes is set when it starts. Messages between
stages go from point to point.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from lab.plan import JobPlan
from lab.trainers.order import one_forward_one_backward
from lab.trainers.recording import Passes, RankRecorder, Sending

FORWARD, BACKWARD = 1, 2


def main(path: str) -> None:
    world = MPI.COMM_WORLD
    recorder = RankRecorder(JobPlan.read(Path(path)), world.Get_rank())
    replicas = world.Split(recorder.stage, recorder.member)
    worker = Worker(recorder, world)
    buckets = _buckets(recorder)
    world.Barrier()
    for _ in recorder.steps():
        worker.step()
        for number, bucket in enumerate(buckets if replicas.Get_size() > 1 else []):
            with recorder.span("allreduce", bucket=number, bytes=bucket.nbytes):
                replicas.Allreduce(MPI.IN_PLACE, bucket, op=MPI.SUM)
        with recorder.optimizer():
            pass
    world.Barrier()
    recorder.write()


def _buckets(recorder: RankRecorder) -> list[Any]:
    """Return gradients in buckets: tensors in the order of the backward pass, until one is full."""
    units = recorder.plan.stages[recorder.stage].parameters
    sizes, limit = [size for unit in reversed(units) for size in unit], recorder.plan.bucket_floats
    full, filled = [0], False
    for size in sizes:
        full = [*full, 0] if filled else full
        full[-1] += size
        filled = limit is not None and full[-1] >= limit
    return [np.zeros(size, np.float32) for size in full]


class Worker:
    """One rank's passes, and the messages to the stages before and after it."""

    def __init__(self, recorder: RankRecorder, world: Any) -> None:
        self._recorder, self._world = recorder, world
        self._passes = Passes(recorder)
        self._sending: list[Sending] = []

    def step(self) -> None:
        plan, stage = self._recorder.plan, self._recorder.stage
        self._passes.begin_step()
        for kind, micro_batch in one_forward_one_backward(stage, plan.pp, plan.micro_batches):
            way = 1 if kind == "fwd" else -1
            self._receive(stage - way, kind, micro_batch)
            self._passes.whole(kind)
            self._send(stage + way, kind, micro_batch)
        for message in self._sending:
            message.end(self._recorder)
        self._sending.clear()

    def _receive(self, stage: int, kind: str, micro_batch: int) -> None:
        if 0 <= stage < self._recorder.plan.pp:
            name, tag = ("recv_act", FORWARD) if kind == "fwd" else ("recv_grad", BACKWARD)
            buffer = self._buffer()
            with self._recorder.span(name, micro_batch=micro_batch, bytes=buffer.nbytes):
                self._world.Recv(buffer, self._peer(stage), tag)

    def _send(self, stage: int, kind: str, micro_batch: int) -> None:
        if 0 <= stage < self._recorder.plan.pp:
            name, tag = ("send_act", FORWARD) if kind == "fwd" else ("send_grad", BACKWARD)
            buffer, start_ns = self._buffer(), time.time_ns()
            request = self._world.Isend(buffer, self._peer(stage), tag)
            about = {"micro_batch": micro_batch, "bytes": buffer.nbytes}
            self._sending.append(Sending(request.Wait, buffer, name, start_ns, about))

    def _peer(self, stage: int) -> int:
        return self._recorder.plan.rank(stage, self._recorder.member, self._recorder.tensor)

    def _buffer(self) -> Any:
        return np.zeros(self._recorder.plan.message_floats, np.float32)


if __name__ == "__main__":
    main(sys.argv[1])
