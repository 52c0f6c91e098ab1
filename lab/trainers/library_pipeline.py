"""Pipeline parallelism with ``torch.distributed.pipelining`` (Schedule1F1B)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from lab.trainers import gloo
from lab.trainers.model import Stage, update
from lab.trainers.recording import RankRecorder


def run(recorder: RankRecorder) -> None:
    gloo.join()
    plan = recorder.plan
    replicas, pipeline = gloo.own_group(recorder, "dp"), gloo.own_group(recorder, "pp")
    module = Stage(recorder)
    device = torch.device("cpu")
    stage = PipelineStage(module, recorder.stage, plan.pp, device, group=pipeline)
    schedule = Schedule1F1B(stage, plan.micro_batches, loss_fn=_loss)
    whole = torch.zeros(plan.micro_batches, plan.message_floats)
    dist.barrier()
    for _ in recorder.steps():
        module.passes.begin_step()
        with recorder.span("schedule"):
            _passes(recorder, schedule, whole)
        gloo.reduce_gradients(recorder, list(module.parameters()), replicas)
        with recorder.optimizer():
            update(module)
    gloo.leave()


def _passes(recorder: RankRecorder, schedule: Any, whole: Any) -> None:
    if recorder.stage == 0:
        schedule.step(whole)
    elif recorder.stage == recorder.plan.pp - 1:
        schedule.step(target=whole)
    else:
        schedule.step()


def _loss(output: Any, _target: Any) -> Any:
    return (output * 1.0).sum()  # the gradient of a plain sum has no memory of its own to send
