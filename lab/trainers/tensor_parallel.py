"""Tensor parallelism with DTensor, replicated over members: real matrix products, and waits.

A layer has two pairs of matrices, as attention and the feed-forward part have: the first one of a
pair is cut by columns, the second one by rows. The library adds an all-reduce after each pair,
forward and backward.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from lab.trainers import gloo
from lab.trainers.model import Wait, update
from lab.trainers.recording import Passes, RankRecorder


def run(recorder: RankRecorder) -> None:
    gloo.join()
    plan = recorder.plan
    mesh = dist.device_mesh.init_device_mesh(
        "cpu", (plan.members, plan.tp), mesh_dim_names=("dp", "tp")
    )
    model = TensorModel(recorder)
    for layer in model.layers:
        parallelize_module(layer, mesh["tp"], Layer.PLAN)
    parameters = list(model.parameters())
    x = torch.zeros(plan.tokens, plan.hidden)
    dist.barrier()
    for _ in recorder.steps():
        model.passes.begin_step()
        for _ in range(plan.micro_batches):
            model(x).sum().backward()
        gloo.reduce_gradients(recorder, parameters, mesh.get_group("dp"))
        with recorder.optimizer():
            update(model)
    gloo.leave()


class Layer(nn.Module):
    """Two pairs of matrices, each with a residual connection around it."""

    PLAN: ClassVar[dict[str, Any]] = {
        "qkv": ColwiseParallel(), "out": RowwiseParallel(),
        "up": ColwiseParallel(), "down": RowwiseParallel(),
    }  # fmt: skip

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: Any) -> Any:
        x = x + self.out(self.qkv(x))
        return x + self.down(self.up(x))


class TensorModel(nn.Module):
    """The layers, each after the wait that stands for the rest of its pass."""

    def __init__(self, recorder: RankRecorder) -> None:
        super().__init__()
        plan = recorder.plan
        self.passes = Passes(recorder)
        layers = self.passes.units - 2  # the embedding and the head are not divided here
        self.layers = nn.ModuleList(Layer(plan.hidden) for _ in range(layers))
        self.ends = nn.Parameter(torch.zeros(plan.hidden))

    def forward(self, x: Any) -> Any:
        x = Wait.apply(x + self.ends, self.passes, 0)
        for number, layer in enumerate(self.layers):
            x = Wait.apply(layer(x), self.passes, number + 1)
        return Wait.apply(x, self.passes, self.passes.units - 1)
