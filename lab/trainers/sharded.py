"""Fully sharded data parallelism with FSDP2: every unit is gathered, and reduced, on its own."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from lab.trainers import gloo
from lab.trainers.model import Stage, update
from lab.trainers.recording import RankRecorder


def run(recorder: RankRecorder) -> None:
    gloo.join()
    model = Stage(recorder)
    mesh = dist.device_mesh.init_device_mesh("cpu", (recorder.plan.ranks,))
    for unit in model.units:
        fully_shard(unit, mesh=mesh)
    fully_shard(model, mesh=mesh)
    x = torch.zeros(recorder.plan.message_floats)
    dist.barrier()
    for _ in recorder.steps():
        model.passes.begin_step()
        for _ in range(recorder.plan.micro_batches):
            model(x).sum().backward()
        with recorder.optimizer():
            update(model)
    gloo.leave()
