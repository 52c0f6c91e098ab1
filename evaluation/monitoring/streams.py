"""Streams of records for the alerts of a monitor: hours of several jobs, most of them healthy.

Everything that looks like a fault happens: passes vary, jobs evaluate, save, restart, come and go,
other traffic shares the switches, telemetry loses records, and clocks have milliseconds. Three
streams have faults as well. All numbers are drawn from the seed of a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prism_sim.loading.scenario import Scenario

LASTS_S = 2_400
_RANKS = 4  # data-parallel ranks of a job, each of a server
_SERVER_GPUS = 8
_MODEL = {"layers": 8, "hidden": 8192, "heads": 64, "vocab": 32_000, "sequence_length": 4_096}
_JOBS = 6
_FREE = 8  # servers of no job, or of jobs that come later

Draw = np.random.Generator
Content = dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """What happens in a stream, and the seed of its numbers."""

    name: str
    purpose: str
    seed: int
    change: Callable[[Content, Draw], None]

    def scenario(self, lasts_s: int = LASTS_S) -> Scenario:
        """The scenario of the stream."""
        draw = np.random.default_rng(self.seed)
        content = _calm(draw, lasts_s, self.seed)
        self.change(content, draw)
        return Scenario.model_validate(content)


def _calm(draw: Draw, lasts_s: int, seed: int) -> Content:
    """Jobs that only train."""
    servers = _JOBS * _RANKS + _FREE
    return {
        "cluster": {
            "servers": servers,
            "gpus_per_server": _SERVER_GPUS,
            "nics_per_server": 1,
            "nic_gbps": 400,
            "gpu_spread": 0.02,
            "fabric": {"kind": "tor", "leaf_ports": 8, "spines": 2},
        },
        "jobs": [_job(number, draw) for number in range(_JOBS)],
        "faults": [],
        "collector": {"effects": [], "message_boundary": False, "idle_gap_us": 2_000},
        "duration_s": lasts_s,
        "seed": seed,
    }


def _job(number: int, draw: Draw) -> Content:
    stages = 2 if number % 3 == 2 else 1
    return {
        "name": f"job{number}",
        "model": _MODEL,
        "dp": _RANKS // stages,
        "pp": stages,
        "tp": _SERVER_GPUS,
        "micro_batches": int(draw.integers(4, 9)),
        "steps": 1_000_000,
        "mfu": float(draw.uniform(0.03, 0.05)),
        "bucket_params": 1_000_000_000,
        "compute_jitter": 0.01,
        "start_s": float(draw.uniform(0, 30)),
    }


def _jitter(content: Content, draw: Draw) -> None:
    for job in content["jobs"]:
        job["compute_jitter"] = float(draw.uniform(0.01, 0.04))
        job["server_jitter"] = float(draw.uniform(0.0, 0.02))
        job["tail_probability"] = float(draw.uniform(0.0005, 0.005))
        job["step_overhead_ms"] = float(draw.uniform(10, 100))
        job["step_overhead_jitter"] = 0.3
        job["length_spread"] = float(draw.choice([0.0, 0.0, 0.1]))
    content["collector"]["effects"].append({"kind": "granularity", "unit_ns": 1_000_000})


def _habits(content: Content, draw: Draw) -> None:
    for number, job in enumerate(content["jobs"]):
        every = int(draw.integers(8, 40))
        if number % 2:
            job["checkpoint"] = {"every": every, "mode": "sync"}
        else:
            job["evaluation"] = {"every": every, "micro_batches": int(draw.integers(4, 40))}


def _churn(content: Content, draw: Draw) -> None:
    lasts_s = content["duration_s"]
    for number, job in enumerate(content["jobs"]):
        job["start_s"] = float(draw.uniform(0, 0.4)) * lasts_s if number % 2 else job["start_s"]
        if number % 3 == 0:
            job["steps"] = int(draw.integers(100, 250))
        if number % 3 == 1:
            step = int(draw.integers(60, 150))
            job["restarts"] = [{"step": step, "noticed_after_s": 30.0, "down_s": 60.0}]
    for number in range(_FREE // _RANKS):
        later = _job(_JOBS + number, draw)
        later["start_s"] = float(draw.uniform(0.5, 0.7)) * lasts_s
        content["jobs"].append(later)
    _traffic(content, draw)


def _traffic(content: Content, draw: Draw) -> None:
    """Flows that belong to no job, and records that are lost."""
    content["background"] = [
        {
            "name": "copies",
            "flows_per_s": float(draw.uniform(1, 5)),
            "median_bytes": 1e7,
            "sigma": 2,
        }
    ]
    content["collector"]["effects"] += [
        {"kind": "loss", "probability": float(draw.uniform(0.0005, 0.005))},
        {"kind": "headers"},
        {"kind": "pings", "every_s": 10.0},
    ]


def _computing(content: Content, draw: Draw) -> None:
    """Faults of GPUs, in jobs that evaluate and save."""
    _habits(content, draw)
    lasts_s = content["duration_s"]
    kinds = ("slow_gpu", "thermal_ramp", "slow_gpu", "slow_gpu")
    for number, kind in enumerate(kinds):
        fault: Content = {"kind": kind, "job": f"job{number}", "rank": _rank(draw)}
        fault["factor"] = float(draw.uniform(0.5, 0.85))
        fault |= {"ramp_s": 60.0} if kind == "thermal_ramp" else {}
        content["faults"].append(fault | _times(draw, lasts_s))


def _network(content: Content, draw: Draw) -> None:
    """Faults of the network, beside other traffic."""
    _jitter(content, draw)
    _traffic(content, draw)
    lasts_s = content["duration_s"]
    for number in (0, 1, 3):
        server = f"s{number * _RANKS + int(draw.integers(_RANKS)):04}"
        fault = {"kind": "slow_nic", "server": server, "nic": 0, "job": f"job{number}"}
        fault["factor"] = float(draw.uniform(0.08, 0.25))
        content["faults"].append(fault | _times(draw, lasts_s))


def _stops(content: Content, draw: Draw) -> None:
    """Jobs that crash and restart, or hang, beside jobs that evaluate."""
    _habits(content, draw)
    lasts_s = content["duration_s"]
    for number, kind in enumerate(("crash", "hang", "crash")):
        first_s = float(draw.uniform(0.3, 0.8)) * lasts_s
        content["faults"].append(
            {"kind": kind, "job": f"job{number}", "rank": _rank(draw), "from_s": first_s,
             "noticed_after_s": 60.0, "down_s": 60.0}
        )  # fmt: skip


def _rank(draw: Draw) -> int:
    return int(draw.integers(_RANKS)) * _SERVER_GPUS


def _times(draw: Draw, lasts_s: float) -> Content:
    first_s = float(draw.uniform(0.25, 0.75)) * lasts_s
    return {"from_s": first_s, "to_s": first_s + float(draw.uniform(100, 300))}


STREAMS = (
    Stream("jitter", "healthy; uneven passes, heavy tails, clocks of 1 ms", 1, _jitter),
    Stream("habits", "healthy; evaluations and saves", 2, _habits),
    Stream("churn", "healthy; jobs come, go and restart; other traffic, loss", 3, _churn),
    Stream("computing", "slow GPUs, beside evaluations and saves", 4, _computing),
    Stream("network", "slow NICs, beside uneven passes and other traffic", 5, _network),
    Stream("stops", "crashes and hangs, beside evaluations and saves", 6, _stops),
)
