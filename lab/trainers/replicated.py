"""Data parallelism with DistributedDataParallel: buckets overlap the last backward pass."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from lab.plan import FLOAT_BYTES
from lab.trainers import gloo
from lab.trainers.model import Stage, update
from lab.trainers.recording import RankRecorder

MIB = 1 << 20


def run(recorder: RankRecorder) -> None:
    gloo.join()
    stage = Stage(recorder)
    limit = recorder.plan.bucket_floats
    cap = {} if limit is None else {"bucket_cap_mb": limit * FLOAT_BYTES / MIB}
    model = DistributedDataParallel(stage, **cap)
    # a function without annotations: the library checks those that there are
    model.register_comm_hook(recorder, lambda state, bucket: _recorded_all_reduce(state, bucket))
    x = torch.zeros(recorder.plan.message_floats)
    dist.barrier()
    for _ in recorder.steps():
        stage.passes.begin_step()
        for micro_batch in range(recorder.plan.micro_batches):
            last = micro_batch == recorder.plan.micro_batches - 1
            with nullcontext() if last else model.no_sync():
                model(x).sum().backward()
        with recorder.optimizer():
            update(stage)
    gloo.leave()


def _recorded_all_reduce(recorder: RankRecorder, bucket: Any) -> Any:
    """DistributedDataParallel's own reduction, with its start and end recorded."""
    start_ns = time.time_ns()
    flat = bucket.buffer().div_(recorder.plan.ranks)
    size, number = flat.numel() * FLOAT_BYTES, bucket.index()

    def ended(future: Any) -> Any:
        recorder.add_span("allreduce", start_ns, time.time_ns(), bucket=number, bytes=size)
        return future.value()[0]

    return dist.all_reduce(flat, async_op=True).get_future().then(ended)
