"""A small model on gloo that fails in one way: ``torchrun ... failing.py CASE STEP RANK FOLDER``.

Rank RANK fails at iteration STEP. The last rank prints Megatron-LM's line of each iteration. The
process group times out after a few seconds, so that a hang ends.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, WIDTH, TIMEOUT_S, STEP_S = 30, 64, 12, 0.1
SLOW_S = 0.3


def _killed(_model: nn.Module, _folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _exception(_model: nn.Module, _folder: Path) -> None:
    raise KeyError("learning_rate")


def _hang(_model: nn.Module, _folder: Path) -> None:
    time.sleep(10_000)


def _full_disk(model: nn.Module, _folder: Path) -> None:
    with Path("/dev/full").open("wb") as stream:
        torch.save(model.state_dict(), stream)


def _refused(_model: nn.Module, _folder: Path) -> None:
    with socket.create_connection(("127.0.0.1", 9), timeout=5):
        pass


def _memory(_model: nn.Module, _folder: Path) -> None:
    held = []
    while True:
        held.append(torch.ones(1 << 25))


def _shape(model: nn.Module, _folder: Path) -> None:
    model(torch.randn(4, WIDTH + 1))


def _missing(_model: nn.Module, folder: Path) -> None:
    torch.load(folder / "shard_0003.pt")


def _nan(model: nn.Module, _folder: Path) -> None:
    loss = model(torch.full((4, WIDTH), float("nan"))).sum()
    if not torch.isfinite(loss):
        raise RuntimeError(f"found NaN in local forward loss calculation: loss is {loss.item()}")


def _agent(_model: nn.Module, _folder: Path) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(2)


def _stopped(_model: nn.Module, _folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _segfault(_model: nn.Module, _folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _permission(_model: nn.Module, folder: Path) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder / "checkpoint"))


def _slow(_model: nn.Module, _folder: Path) -> None:
    """The step itself takes longer, from here on."""


FAILURES: dict[str, Callable[[nn.Module, Path], None]] = {
    "killed_rank": _killed,
    "exception": _exception,
    "hang": _hang,
    "full_disk": _full_disk,
    "refused_connection": _refused,
    "out_of_memory": _memory,
    "slow_rank": _slow,
    "wrong_shape": _shape,
    "missing_file": _missing,
    "nan": _nan,
    "killed_agent": _agent,
    "stopped_process": _stopped,
    "segmentation_fault": _segfault,
    "permission": _permission,
}


def main() -> None:
    """Train until the failure."""
    case, at, culprit, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_S))
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, STEPS + 1):
        started = time.perf_counter()
        time.sleep(STEP_S)
        if rank == culprit and step == at:
            FAILURES[case](model.module, folder)
        if rank == culprit and step >= at and case == "slow_rank":
            time.sleep(SLOW_S)
        optimizer.zero_grad()
        loss = model(torch.randn(8, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        if rank == dist.get_world_size() - 1:
            _report(step, time.perf_counter() - started, loss.item())
    dist.destroy_process_group()


def _report(step: int, seconds: float, loss: float) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    print(
        f" [{stamp}.000000] iteration {step:8d}/{STEPS:8d} | consumed samples: {32 * step:12d} | "
        f"elapsed time per iteration (ms): {1000 * seconds:.1f} | learning rate: 1.000000E-02 | "
        f"global batch size:    32 | lm loss: {loss:.6E} | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |",
        flush=True,
    )


if __name__ == "__main__":
    main()
