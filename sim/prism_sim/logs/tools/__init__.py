"""The programs that print, one file a tool, each in two versions.

A new tool is a new file with a class for each version, a table of ``statements.toml``, and a field
of :class:`Tools`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from prism_sim.logs.job import Framework, LogJob
from prism_sim.logs.tools.base import Tool, Trainer
from prism_sim.logs.tools.c10d import C10d, C10d22, Nccl, Nccl228
from prism_sim.logs.tools.python import Python, Python310
from prism_sim.logs.tools.system import Kernel, Kernel575, Slurm, Slurm22
from prism_sim.logs.tools.torchrun import Torchrun, Torchrun22
from prism_sim.logs.tools.trainers import DeepSpeed, DeepSpeed018, Megatron, Megatron03

T = TypeVar("T", bound=Tool)

_TORCHRUN: tuple[type[Torchrun], ...] = (Torchrun22, Torchrun)
_C10D: tuple[type[C10d], ...] = (C10d22, C10d)
_PYTHON: tuple[type[Python], ...] = (Python310, Python)
_NCCL: tuple[type[Nccl], ...] = (Nccl, Nccl228)
_SLURM: tuple[type[Slurm], ...] = (Slurm22, Slurm)
_KERNEL: tuple[type[Kernel], ...] = (Kernel, Kernel575)
_TRAINERS: dict[Framework, tuple[type[Trainer], ...]] = {
    "megatron": (Megatron03, Megatron),
    "deepspeed": (DeepSpeed, DeepSpeed018),
}


def versions(framework: Framework) -> dict[str, tuple[type[Tool], ...]]:
    """The versions of each tool of a job with this framework; ``torch`` has two programs."""
    return {
        "torch": _TORCHRUN,
        "python": _PYTHON,
        "nccl": _NCCL,
        "slurm": _SLURM,
        "kernel": _KERNEL,
        framework: _TRAINERS[framework],
    }


@dataclass(frozen=True)
class Tools:
    """The programs of one job, in its versions."""

    torchrun: Torchrun
    c10d: C10d
    python: Python
    nccl: Nccl
    slurm: Slurm
    kernel: Kernel
    trainer: Trainer

    @classmethod
    def of(cls, job: LogJob) -> Tools:
        chosen = job.versions
        return cls(
            _version(_TORCHRUN, chosen["torch"])(job),
            _version(_C10D, chosen["torch"])(job),
            _version(_PYTHON, chosen["python"])(job),
            _version(_NCCL, chosen["nccl"])(job),
            _version(_SLURM, chosen["slurm"])(job),
            _version(_KERNEL, chosen["kernel"])(job),
            _version(_TRAINERS[job.framework], chosen[job.framework])(job),
        )


def _version(kinds: tuple[type[T], ...], name: str) -> type[T]:
    return next(kind for kind in kinds if kind.version == name)
