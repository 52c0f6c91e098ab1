"""GPUs by name, with numbers from their data sheets.

``gpu: h100`` in a scenario selects these numbers. Peaks are dense (without sparsity) bf16;
NVLink rates are for one direction, half of the value for both in data sheets.
"""

from __future__ import annotations

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


GPUS: dict[str, GpuData] = {
    "a100": GpuData(312, 2039, 2400, "NVIDIA A100 80 GB SXM data sheet: NVLink 600 GB/s"),
    "h100": GpuData(989, 3350, 3600, "NVIDIA H100 SXM data sheet: NVLink 900 GB/s"),
    "h800": GpuData(
        989,
        3350,
        1600,
        "as the H100 SXM; NVLink 400 GB/s (DeepSeek-AI, Insights into DeepSeek-V3, ISCA'25, "
        "arXiv 2505.09343, section 2.1)",
    ),
    "h200": GpuData(989, 4800, 3600, "NVIDIA H200 SXM data sheet: NVLink 900 GB/s"),
    "b200": GpuData(
        2250, 8000, 7200, "NVIDIA DGX B200 data sheet, an eighth of the system: NVLink 14.4 TB/s"
    ),
    "gb200": GpuData(
        2500,
        8000,
        7200,
        "NVIDIA GB200 NVL72 data sheet, a 72nd of the rack: bf16 360 PFLOP/s with sparsity, HBM "
        "576 TB/s, NVLink 130 TB/s",
    ),
}
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
    return {
        "peak_tflops": data.peak_tflops,
        "memory_gbytes_per_s": data.memory_gbytes_per_s,
    }


def with_nvlink(cluster: Any) -> Any:
    """The values of a cluster with the NVLink rate of its GPU, if the GPU is given by name."""
    if not isinstance(cluster, dict) or "nvlink_gbps" in cluster:
        return cluster
    name = cluster.get("gpu")
    data = GPUS.get(name.lower()) if isinstance(name, str) else None
    return cluster if data is None else cluster | {"nvlink_gbps": data.nvlink_gbps}
