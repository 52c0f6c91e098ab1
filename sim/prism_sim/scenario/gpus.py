"""GPUs by name, with the numbers of ``gpus.toml`` from their data sheets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from prism_sim.scenario.words import did_you_mean


class GpuData(NamedTuple):
    """Data of one kind of GPU.

    Attributes
    ----------
    peak_tflops : dense bf16 peak [TFLOP/s].
    memory_gbytes_per_s : memory bandwidth [GB/s, 10^9 bytes].
    nvlink_gbps : NVLink rate of one direction [Gbit/s].
    source : source of the numbers.
    """

    peak_tflops: float
    memory_gbytes_per_s: float
    nvlink_gbps: float
    source: str


_DATA = tomllib.loads(Path(__file__).with_name("gpus.toml").read_text(encoding="utf-8"))
GPUS: dict[str, GpuData] = {name: GpuData(**values) for name, values in _DATA.items()}
"""Data of all named GPUs."""


def gpu_numbers(value: Any) -> Any:
    """The speed of the GPU called ``value``; other values are returned unchanged.

    >>> gpu_numbers("a100")
    {'peak_tflops': 312, 'memory_gbytes_per_s': 2039}
    """
    if not isinstance(value, str):
        return value
    data = GPUS.get(value.lower())
    if data is None:
        raise ValueError(f"no GPU is called {value!r}; {did_you_mean(value, GPUS)}")
    return {"peak_tflops": data.peak_tflops, "memory_gbytes_per_s": data.memory_gbytes_per_s}


def with_nvlink(cluster: Any) -> Any:
    """The values of a cluster with the NVLink rate of its GPU, if the GPU is given by name."""
    if not isinstance(cluster, dict) or "nvlink_gbps" in cluster:
        return cluster
    name = cluster.get("gpu")
    data = GPUS.get(name.lower()) if isinstance(name, str) else None
    return cluster if data is None else cluster | {"nvlink_gbps": data.nvlink_gbps}
