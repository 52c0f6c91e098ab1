"""Pipeline parallelism written by hand on gloo (1F1B), with or without replicas.

Each pass of a stage works on real tensors: activations go forward, gradients of them go back,
and automatic differentiation joins the two. Gradients of parameters are reduced after the last
backward pass.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from lab.plan import FLOAT_BYTES
from lab.trainers import gloo
from lab.trainers.model import Stage, update
from lab.trainers.order import one_forward_one_backward
from lab.trainers.recording import RankRecorder, Sending


def run(recorder: RankRecorder) -> None:
    gloo.join()
    plan = recorder.plan
    replicas = gloo.own_group(recorder, "dp")
    pipeline = Pipeline(recorder)
    dist.barrier()
    for _ in recorder.steps():
        pipeline.step()
        gloo.reduce_gradients(recorder, list(pipeline.stage.parameters()), replicas)
        with recorder.optimizer():
            update(pipeline.stage)
    assert plan.pp > 1
    gloo.leave()


class Pipeline:
    """One rank's stage, and the messages to the stages before and after it."""

    def __init__(self, recorder: RankRecorder) -> None:
        self._recorder, plan = recorder, recorder.plan
        self.stage = Stage(recorder)
        place = (recorder.member, recorder.tensor)
        self._before = plan.rank(recorder.stage - 1, *place) if recorder.stage else None
        last = recorder.stage == plan.pp - 1
        self._after = None if last else plan.rank(recorder.stage + 1, *place)
        self._bytes = plan.message_floats * FLOAT_BYTES
        self._inputs: dict[int, Any] = {}
        self._outputs: dict[int, Any] = {}
        self._sending: list[Sending] = []

    def step(self) -> None:
        """All passes of one step."""
        plan = self._recorder.plan
        self.stage.passes.begin_step()
        work = {"fwd": self._forward, "bwd": self._backward}
        order = one_forward_one_backward(self._recorder.stage, plan.pp, plan.micro_batches)
        for kind, micro_batch in order:
            work[kind](micro_batch)
        for message in self._sending:
            message.end(self._recorder)
        self._sending.clear()

    def _forward(self, micro_batch: int) -> None:
        x = torch.zeros(self._recorder.plan.message_floats)
        if self._before is not None:
            self._receive(x, self._before, "recv_act", micro_batch)
            x.requires_grad_()
        y = self.stage(x)
        self._inputs[micro_batch], self._outputs[micro_batch] = x, y
        if self._after is not None:
            self._send(y.detach(), self._after, "send_act", micro_batch)

    def _backward(self, micro_batch: int) -> None:
        x, y = self._inputs.pop(micro_batch), self._outputs.pop(micro_batch)
        if self._after is None:
            y.sum().backward()
        else:
            gradient = torch.zeros_like(y)
            self._receive(gradient, self._after, "recv_grad", micro_batch)
            y.backward(gradient)
        if self._before is not None:
            self._send(x.grad, self._before, "send_grad", micro_batch)

    def _receive(self, x: Any, rank: int, kind: str, micro_batch: int) -> None:
        with self._recorder.span(kind, micro_batch=micro_batch, bytes=self._bytes):
            dist.recv(x, rank)

    def _send(self, x: Any, rank: int, kind: str, micro_batch: int) -> None:
        about = {"micro_batch": micro_batch, "bytes": self._bytes}
        start_ns = time.time_ns()
        self._sending.append(Sending(dist.isend(x, rank).wait, x, kind, start_ns, about))
