"""PyTorch's process groups on gloo, and all-reduces of gradients in buckets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.fx.experimental.symbolic_shapes  # else every rank imports it in its first backward

from lab.plan import FLOAT_BYTES
from lab.trainers.recording import RankRecorder


def join() -> None:
    """Join the job's process group; every rank connects to every other."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")


def leave() -> None:
    dist.barrier()
    dist.destroy_process_group()


def own_group(recorder: RankRecorder, kind: str) -> Any:
    """Return this rank's group of ``dp`` or ``pp``; all ranks make all groups, in one order."""
    plan, own = recorder.plan, None
    places = [plan.place(rank) for rank in range(plan.ranks)]
    keys = [(s, t) if kind == "dp" else (m, t) for s, m, t in places]
    for key in sorted(set(keys)):
        ranks = [rank for rank, its in enumerate(keys) if its == key]
        group = dist.new_group(ranks, backend="gloo")
        if recorder.rank in ranks:
            own = group
    return own


def buckets(parameters: list[Any], limit: int | None) -> Iterator[list[Any]]:
    """Yield parameters in the order of the backward pass; a full bucket is closed."""
    bucket: list[Any] = []
    for parameter in reversed(parameters):
        bucket.append(parameter)
        if limit is not None and sum(one.numel() for one in bucket) >= limit:
            yield bucket
            bucket = []
    if bucket:
        yield bucket


def reduce_gradients(recorder: RankRecorder, parameters: list[Any], group: Any) -> None:
    """Average gradients over the replicas, bucket after bucket."""
    size = dist.get_world_size(group)
    if size == 1:
        return
    for number, bucket in enumerate(buckets(parameters, recorder.plan.bucket_floats)):
        flat = torch.cat([_local(one).reshape(-1) for one in bucket])
        with recorder.span("allreduce", bucket=number, bytes=flat.numel() * FLOAT_BYTES):
            dist.all_reduce(flat, group=group)
        flat /= size
        _scatter(flat, bucket)


def _local(parameter: Any) -> Any:
    """Return the gradient; of a distributed tensor, this rank's part of it."""
    gradient = parameter.grad
    return gradient.to_local() if hasattr(gradient, "to_local") else gradient


def _scatter(flat: Any, bucket: list[Any]) -> None:
    place = 0
    for parameter in bucket:
        local = _local(parameter)
        local.copy_(flat[place : place + local.numel()].view_as(local))
        place += local.numel()
