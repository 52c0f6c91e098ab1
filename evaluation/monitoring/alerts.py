"""How many alerts of a monitor are false, and how soon the true ones come: ``evaluation alerts``.

Each stream is watched in lock-step, one after the other. What is done is kept below
``results/monitor``: a run that was interrupted goes on where it was. The folder of a stream is
named by its records and by the settings of the monitor, and has the versions of the code that
watched it: one that went on with another version says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from evaluation.exam.intervals import Estimate, events, middle, share
from evaluation.exam.worlds import RESULTS, simulated
from evaluation.monitoring.judging import Judged, judge
from evaluation.monitoring.lockstep import Strides, versions, watch
from evaluation.paths import ROOT
from llmprism.watch.settings import SECOND_NS, Settings
from prism_sim.loading.scenario import Scenario

SETTINGS = Settings(
    window_ns=120 * SECOND_NS, stride_ns=2 * SECOND_NS, quiet_ns=60 * SECOND_NS, lag_ns=2**61
)
FOLDER = ROOT / "results" / "monitor"
_TURNS = 8
_SEVERITIES = ("critical", "warning", "info")


def results(lasts_s: int, share: float) -> list[tuple[Stream, Judged]]:
    """Watch a share of all streams of so many seconds, each a little further in turn."""
    for part in range(1, _TURNS):
        for stream in STREAMS if part / _TURNS < share else ():
            result(stream, lasts_s, part / _TURNS)
    return [(stream, result(stream, lasts_s, share)) for stream in STREAMS]


def result(stream: Stream, lasts_s: int, share: float) -> Judged:
    """Watch a share of a stream, and judge the alerts."""
    run = simulated(stream.scenario(lasts_s), RESULTS / "worlds")
    folder = FOLDER / f"{stream.name}-{_key(run.flows)}"
    source = Strides(run.flows, folder / "strides", SETTINGS.stride_ns)
    found = judge(run, watch(source, run.topology, folder, SETTINGS, share=share).path)
    found.versions = versions(folder)
    return found


def _key(flows: Path) -> str:
    """A hash of the records of a stream, and of the settings of the monitor."""
    digest = hashlib.blake2b(repr(SETTINGS).encode(), digest_size=6)
    table = pq.read_table(flows, columns=["start_ns", "end_ns", "bytes"])
    for column in table.columns:
        digest.update(column.to_numpy().tobytes())
    return digest.hexdigest()


def totals(found: Sequence[Judged]) -> dict[str, Estimate]:
    """The figures of all streams together, each with its interval."""
    sizes = [one.job_steps / 1_000 for one in found]
    every: dict[str, Estimate] = {
        f"false alerts in 1,000 job-steps, {name}": events(
            [one.false[name] for one in found], sizes
        )
        for name in _SEVERITIES
    }
    counts = [sum(one.false.values()) for one in found]
    every["false alerts in 1,000 job-steps, all"] = events(counts, sizes)
    faults = sum(one.faults for one in found)
    every["share of faults missed"] = share(sum(one.missed for one in found), faults)
    delays = [delay for one in found for delay in one.delays]
    every["delay of an alert, median [steps]"] = middle(delays)
    named = sum(one.named for one in found)
    wrong = sum(one.wrong_first for one in found)
    every["share of first alerts with a wrong place"] = share(wrong, named)
    return every


# Streams of records for the alerts of a monitor: hours of several jobs, most of them healthy.
#
# Everything that looks like a fault happens: passes vary, jobs evaluate, save, restart, come and
# go, other traffic shares the switches, telemetry loses records, and clocks have milliseconds.
# Three streams have faults as well. All numbers are drawn from the seed of a stream.

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
