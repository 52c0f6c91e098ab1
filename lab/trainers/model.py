"""A model whose gradients are real and whose computation is a wait.

Every unit (the embedding, a layer, the head) has parameters of the sizes of the scenario's model.
Its output depends on all of them, so automatic differentiation makes a gradient for each; the
time of a pass is spent in a function that waits, forward and backward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from lab.trainers.recording import Passes, RankRecorder


class Wait(torch.autograd.Function):
    """Hands a tensor on after the time that a unit's pass takes."""

    @staticmethod
    def forward(ctx: Any, x: Any, passes: Passes, unit: int) -> Any:
        ctx.passes, ctx.unit = passes, unit
        if _is_real(x):
            passes.forward(unit)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if _is_real(gradient):
            ctx.passes.backward(ctx.unit)
        return gradient, None, None


def _is_real(x: Any) -> bool:
    """Return whether a tensor has data; libraries infer shapes with tensors that have none."""
    return x.device.type != "meta" and not isinstance(x, FakeTensor)


class Unit(nn.Module):
    """One unit of the model; gradients are ready after its part of the backward pass."""

    def __init__(self, sizes: list[int], passes: Passes, number: int) -> None:
        super().__init__()
        ordered = reversed(sizes)  # the backward pass finishes the last registered ones first
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(size)) for size in ordered)
        self.passes, self.number = passes, number

    def forward(self, x: Any) -> Any:
        total = sum(weight.sum() for weight in self.weights)
        return Wait.apply(x + 1e-6 * total, self.passes, self.number)


class Stage(nn.Module):
    """The units of one pipeline stage, in order."""

    def __init__(self, recorder: RankRecorder) -> None:
        super().__init__()
        self.passes = Passes(recorder)
        sizes = recorder.plan.stages[recorder.stage].parameters
        self.units = nn.ModuleList(
            Unit(own, self.passes, number) for number, own in enumerate(sizes)
        )

    def forward(self, x: Any) -> Any:
        for unit in self.units:
            x = unit(x)
        return x


def update(stage: Any) -> None:
    """Subtract the gradients and forget them."""
    with torch.no_grad():
        for parameter in stage.parameters():
            if parameter.grad is not None:
                parameter -= 1e-3 * parameter.grad
                parameter.grad = None
