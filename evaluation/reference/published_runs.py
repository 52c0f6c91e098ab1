"""Training runs whose authors published a layout, and a step time or a throughput.

Each run is a scenario in scenarios/published, with changes where several runs share one file. Each
source ends with ``read`` if the figure was read there, or with ``second-hand``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prism_sim.training.schedules.zero_bubble import ZeroBubble

FULL = {"recompute": "full", "sequence_parallel": False}
KORTHIKANTI = "arXiv 2205.05198, tables 3, 5; second-hand: calculon-ai/calculon, `validation`"
LLAMA = "arXiv 2407.21783, table 4; second-hand: glennklockwood.com/garden/llama-3.1"


@dataclass(frozen=True)
class PublishedRun:
    """A published run.

    Attributes
    ----------
    name, source : of the run, and of its published figures.
    scenario : name of its file.
    step_s, tflops : step time [s], or model FLOP/s per GPU [TFLOP/s]; one of them is given.
    changes, cluster : changed values of the scenario's job, and of its cluster.
    calibrates : whether the efficiency of its kind of GPU is taken from this run.
    bound : whether one of its costs is left out, which gives a limit, not a prediction.
    micro_batches, gpus : of the whole run, if only a part of it is simulated.
    """

    name: str
    scenario: str
    source: str
    step_s: float | None = None
    tflops: float | None = None
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    cluster: Mapping[str, Any] = field(default_factory=dict, hash=False)
    calibrates: bool = False
    bound: bool = False
    micro_batches: int | None = None
    gpus: int | None = None


def _megatron(size: str, selective_s: float, full_s: float) -> tuple[PublishedRun, PublishedRun]:
    name = f"megatron-{size.lower()}"
    calibrates = size == "175B"
    return (
        PublishedRun(f"{size}, selective", name, KORTHIKANTI, selective_s, calibrates=calibrates),
        PublishedRun(f"{size}, full recompute", name, KORTHIKANTI, full_s, changes=FULL),
    )


def _deepseek(name: str, *, bound: bool = False, **changes: Any) -> PublishedRun:
    hours, tokens, step_tokens = 2.664e6, 14.8e12, 15_360 * 4096
    return PublishedRun(
        name, "deepseek-v3",
        "deepseek-ai/DeepSeek-V3, README (2.664 M GPU hours for 14.8 T tokens); read. Layout and "
        "batch: arXiv 2412.19437; second-hand",
        step_s=hours * 3600 / tokens * step_tokens / 2048, changes=changes, bound=bound,
        micro_batches=120, gpus=2048,
    )  # fmt: skip


EXPOSED = {"schedule": ZeroBubble(), "moe": None, "micro_batches": 2}
"""Exchanges that nothing hides, of bf16 tokens with a copy for each expert."""

RUNS: tuple[PublishedRun, ...] = (
    *_megatron("22B", 1.10, 1.42),
    *_megatron("175B", 13.75, 18.13),
    *_megatron("530B", 37.83, 49.05),
    *_megatron("1T", 71.49, 94.42),
    PublishedRun(
        "530B, selective, dp 8", "megatron-530b",
        "arXiv 2205.05198, abstract (54.2 % of peak on 2,240 GPUs); read",
        tflops=0.542 * 312, changes={"dp": 8}, cluster={"servers": 280},
    ),
    PublishedRun(
        "BLOOM-176B", "bloom-176b",
        "bigscience-workshop/bigscience, `tr11-176B-ml`, script and chronicles; read",
        step_s=105.22,
    ),
    PublishedRun(
        "Llama 3 405B, 8,192 GPUs", "llama-3-405b", LLAMA, tflops=430, calibrates=True,
        changes={"dp": 64, "micro_batches": 32}, cluster={"servers": 1024},
    ),
    PublishedRun("Llama 3 405B, 16,384 GPUs", "llama-3-405b", LLAMA, tflops=400),
    PublishedRun(
        "Llama 3 405B, 131,072 tokens", "llama-3-405b-long", LLAMA, tflops=380, gpus=16_384
    ),
    PublishedRun(
        "Mixtral 8x7B", "mixtral-8x7b",
        "NVIDIA/Megatron-LM, `megatron/core/transformer/moe/README.md`; read", tflops=468,
    ),
    _deepseek("DeepSeek-V3"),
    _deepseek("DeepSeek-V3, exchange exposed", bound=True, **EXPOSED),
)  # fmt: skip
"""All runs of the table. A step time is derived from FLOP/s with :func:`counted_flops`."""


PLAIN: tuple[PublishedRun, ...] = tuple(
    replace(run, changes={**run.changes, "kernels": "ideal", "mfu": 0.603}) for run in RUNS[:8]
)
"""Megatron's runs with one efficiency for all work; it is taken from "175B, selective"."""
