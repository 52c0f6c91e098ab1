"""Worlds for the study of findings, drawn from a seed: a cluster, its jobs, telemetry, one fault.

Everything that a reader of flow records cannot choose is drawn: layout, schedule, placement,
fabric, how unequal healthy GPUs are, how noisy computing is, and how records are made. The kind
of fault is given by the caller (or none); its place, severity and window are drawn. Ranges are
wide on purpose: small faults are drawn as well, and the page says from which slowdown on they
are found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prism_sim.scenario.names import leaf_name, nic_address, server_name, spine_name

World = dict[str, Any]
Stream = np.random.Generator

STEPS = 28
MODEL = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 32000, "sequence_length": 2048}
PASS_S = 0.0129  # forward and backward of one micro-batch through the whole model, about

PIPELINES = [(8, 2, 1), (4, 4, 1), (4, 2, 1), (4, 2, 2), (2, 4, 2), (8, 2, 2), (8, 4, 1), (4, 2, 4)]
REPLICAS = [(8, 1, 1), (16, 1, 1), (8, 1, 2), (4, 1, 2), (12, 1, 1), (8, 1, 4)]
"""Sizes (dp, pp, tp) with and without a pipeline: 8 to 32 GPUs."""

TELEMETRY: dict[str, World] = {
    "exact": {},
    "headers": {"effects": [{"kind": "headers"}]},
    "merged": {"idle_gap_us": 5000, "message_boundary": False, "effects": [{"kind": "headers"}]},
    "ms clock": {
        "message_boundary": False,
        "effects": [{"kind": "headers"}, {"kind": "granularity", "unit_ns": 1_000_000}],
    },
    "lossy": {
        "idle_gap_us": 2000,
        "message_boundary": False,
        "effects": [
            {"kind": "headers"},
            {"kind": "retransmissions", "probability": 0.0001},
            {"kind": "loss", "probability": 0.02},
            {"kind": "clocks", "offset_us": 200},
        ],
    },
    "sampled": {
        "idle_gap_us": 5000,
        "message_boundary": False,
        "effects": [{"kind": "headers"}, {"kind": "sampling", "one_in": 100}],
    },
}
WEIGHTS = (0.3, 0.2, 0.15, 0.15, 0.12, 0.08)


def draw_world(seed: int, kind: str | None) -> World:
    """The scenario of ``seed`` with a fault of ``kind``; without any fault if that is None."""
    stream = np.random.default_rng([seed, 12])
    job = _job(stream, kind)
    world = _cluster(stream, job, kind)
    world |= {"name": f"{kind or 'healthy'}-{seed}", "seed": seed, "jobs": [job]}
    names = [*TELEMETRY]
    world["collector"] = TELEMETRY[names[int(stream.choice(len(names), p=WEIGHTS))]]
    world["collector"] = world["collector"] | {}
    _disturbances(stream, world, kind)
    if kind is not None:
        world["faults"] = [fault_of(stream, world, kind)]
        world["measure_faults"] = True
    return world


def telemetry_of(world: World) -> str:
    """The name of the telemetry of a drawn world."""
    return next(name for name, own in TELEMETRY.items() if own == world["collector"])


def _job(stream: Stream, kind: str | None) -> World:
    """A job whose layout allows the fault."""
    piped = kind in ("uneven_stage",) or bool(stream.random() < 0.65)
    sizes = PIPELINES if piped else REPLICAS
    if kind == "degraded_nvlink":
        sizes = [size for size in sizes if size[2] > 1]
    if kind == "expert_imbalance":
        sizes = [(8, 1, 1), (8, 2, 1)]
    dp, pp, tp = sizes[int(stream.integers(len(sizes)))]
    job: World = {"name": "train", "model": MODEL, "dp": dp, "pp": pp, "tp": tp, "steps": STEPS}
    job["micro_batches"] = int(stream.choice([6, 8, 12])) if pp > 1 else int(stream.choice([2, 4]))
    schedules = ["1f1b", "1f1b", "1f1b", "gpipe", "interleaved", "zb-h1"]
    schedule = schedules[int(stream.integers(len(schedules)))]
    if pp > 1:
        job |= {"schedule": schedule} | ({"chunks": 2} if schedule == "interleaved" else {})
        job["micro_batches"] = 8 if schedule == "interleaved" else job["micro_batches"]
        job["zero_stage"] = int(stream.choice([0, 1]))
    else:
        job["zero_stage"] = int(stream.choice([0, 1, 1, 3]))
    if kind == "expert_imbalance":
        job |= {"ep": 4, "moe": {"experts": 8, "top_k": 2}, "schedule": "1f1b", "zero_stage": 1}
        job.pop("chunks", None)
    return job | _noise(stream)


def _noise(stream: Stream) -> World:
    """How uneven healthy computing is."""
    return {
        "mfu": round(float(stream.uniform(0.35, 0.55)), 3),
        "compute_jitter": round(float(stream.choice([0.005, 0.01, 0.02, 0.03])), 3),
        "server_jitter": round(float(stream.choice([0.0, 0.005, 0.01])), 3),
        "tail_probability": float(stream.choice([0.0, 0.001, 0.002])),
        "step_overhead_ms": float(stream.choice([2.0, 5.0, 15.0])),
        "step_overhead_jitter": float(stream.choice([0.0, 0.1, 0.2])),
    }


def _cluster(stream: Stream, job: World, kind: str | None) -> World:
    """Servers enough for the job and a few more, on a small fabric."""
    ranks = job["dp"] * job["pp"] * job["tp"]
    gpus = max(job["tp"], int(stream.choice([1, 2, 4])))
    used = -(-ranks // gpus)
    servers = used + 2 * (kind != "job_congestion") * (stream.random() < 0.5)
    if kind == "job_congestion":
        servers = 2 * used
    storage = kind == "slow_storage" or stream.random() < 0.1
    servers += storage + (servers + storage) % 2
    leaf_ports = int(stream.choice([4, 8])) * gpus
    fabric = {"kind": "tor", "leaf_ports": leaf_ports, "spines": int(stream.choice([2, 4]))}
    order = stream.permutation(servers - storage)[:used] if stream.random() < 0.7 else range(used)
    job["placement"] = {"servers": [server_name(int(one)) for one in order]}
    cluster = {"servers": int(servers), "gpus_per_server": gpus, "nics_per_server": gpus,
               "gpu_spread": float(stream.choice([0.0, 0.02, 0.04])), "fabric": fabric}  # fmt: skip
    world: World = {"cluster": cluster}
    if storage:
        world["storage"] = [server_name(int(servers) - 1)]
        every = 3 if kind == "slow_storage" else 5
        job["checkpoint"] = {"every": every} | ({} if kind else {"mode": "async"})
    return world


def _disturbances(stream: Stream, world: World, kind: str | None) -> None:
    """What is no fault: evaluations, background traffic, a neighbour on the other servers."""
    job = world["jobs"][0]
    if kind is None and stream.random() < 0.3:
        job["evaluation"] = {"every": 7, "micro_batches": 6}
    if stream.random() < 0.25:
        world["background"] = [
            {"name": "services", "flows_per_s": 100, "median_bytes": 2000, "sigma": 2}
        ]
    free = sorted(_free(world))
    gpus = world["cluster"]["gpus_per_server"]
    if kind == "job_congestion":
        dp = len(job["placement"]["servers"]) * gpus // job["tp"] // job["pp"]
        servers = free[: len(job["placement"]["servers"])]
        world["jobs"].append(job | {"name": "other", "dp": dp, "placement": {"servers": servers}})
    elif len(free) >= 2 and gpus > 1 and stream.random() < 0.5:
        other = {"name": "other", "model": MODEL, "dp": 2 * gpus, "micro_batches": 3,
                 "steps": STEPS, "placement": {"servers": free[:2]}} | _noise(stream)  # fmt: skip
        world["jobs"].append(other)


def _free(world: World) -> set[str]:
    every = {server_name(one) for one in range(world["cluster"]["servers"])}
    used = {name for job in world["jobs"] for name in job["placement"]["servers"]}
    return every - used - {*world.get("storage", [])}


def _window(stream: Stream) -> World:
    """In steps: mostly a part of the run, sometimes to its end."""
    first = int(stream.integers(7, 13))
    lasting = stream.random() < 0.25
    return {"from_step": first} | (
        {} if lasting else {"to_step": first + int(stream.integers(6, 12))}
    )


def _step_s(job: World) -> float:
    """Length of a step [s], roughly."""
    share = (job["micro_batches"] + job["pp"] - 1) / job["pp"] / job["tp"]
    return PASS_S * 0.45 / job["mfu"] * share + job["step_overhead_ms"] / 1e3


def fault_of(stream: Stream, world: World, kind: str) -> World:
    """A fault of a kind, at a place in the first job, with its severity and its window."""
    made = FAULTS[kind](stream, world, world["jobs"][0])
    window = {} if made.pop("without_end", False) else _window(stream)
    return {"kind": kind, "job": "train", **window, **made}


def _factor(stream: Stream, low: float, high: float) -> float:
    return round(float(stream.uniform(low, high)), 3)


def _rank(stream: Stream, job: World) -> int:
    return int(stream.integers(job["dp"] * job["pp"] * job["tp"]))


def _server(stream: Stream, job: World) -> str:
    return str(stream.choice(job["placement"]["servers"]))


def _nic(stream: Stream, world: World, job: World) -> World:
    nic = int(stream.integers(world["cluster"]["nics_per_server"]))
    return {"server": _server(stream, job), "nic": nic}


def _leaf_of(world: World, server: str) -> int:
    per_leaf = world["cluster"]["fabric"]["leaf_ports"] // world["cluster"]["nics_per_server"]
    return int(server[1:]) // per_leaf


def _leaf(stream: Stream, world: World, job: World) -> str:
    return leaf_name(_leaf_of(world, _server(stream, job)))


def _spine(stream: Stream, world: World) -> str:
    return spine_name(int(stream.integers(world["cluster"]["fabric"]["spines"])))


def _link(stream: Stream, world: World, job: World) -> World:
    """An uplink of a leaf that the job uses, or the cable of one of its NICs."""
    nic = _nic(stream, world, job)
    leaf = leaf_name(_leaf_of(world, nic["server"]))
    if stream.random() < 0.5:
        return {"a": nic_address(int(nic["server"][1:]), nic["nic"]), "b": leaf}
    return {"a": leaf, "b": _spine(stream, world)}


def _stopping(stream: Stream) -> World:
    first = int(stream.integers(8, 20))
    again = {"down_s": 10} if stream.random() < 0.5 else {}
    return {"from_step": first, "noticed_after_s": 20, "without_end": True, **again}


def _switch(stream: Stream, world: World, job: World) -> str:
    return _leaf(stream, world, job) if stream.random() < 0.5 else _spine(stream, world)


Maker = Callable[[Stream, World, World], World]

# ruff: noqa: ARG005  (every maker has the same three arguments)
FAULTS: dict[str, Maker] = {
    "slow_gpu": lambda s, w, j: {"rank": _rank(s, j), "factor": _factor(s, 0.5, 0.95)},
    "thermal_ramp": lambda s, w, j: {
        "rank": _rank(s, j), "factor": _factor(s, 0.5, 0.8), "ramp_s": 4 * _step_s(j)},
    "intermittent_gpu": lambda s, w, j: {
        "rank": _rank(s, j), "factor": _factor(s, 0.4, 0.7),
        "every_s": 3 * _step_s(j), "lasts_s": _step_s(j)},
    "slow_server": lambda s, w, j: {"server": _server(s, j), "factor": _factor(s, 0.5, 0.9)},
    "gc_pauses": lambda s, w, j: {
        "server": _server(s, j), "pause_ms": 1e3 * _step_s(j) * _factor(s, 0.2, 0.6),
        "every_s": 3 * _step_s(j)},
    "loader_stalls": lambda s, w, j: {
        "rank": _rank(s, j), "stall_ms": 1e3 * _step_s(j) * _factor(s, 0.1, 0.5),
        "every": int(s.integers(1, 3))},
    "uneven_stage": lambda s, w, j: {
        "stage": int(s.integers(j["pp"])), "factor": _factor(s, 0.6, 0.9)},
    "degraded_nvlink": lambda s, w, j: {"rank": _rank(s, j), "factor": _factor(s, 0.05, 0.3)},
    "length_imbalance": lambda s, w, j: {"spread": _factor(s, 0.1, 0.4)},
    "expert_imbalance": lambda s, w, j: {"spread": _factor(s, 0.3, 0.9)},
    "slow_nic": lambda s, w, j: _nic(s, w, j) | {"factor": _factor(s, 0.1, 0.6)},
    "flapping_nic": lambda s, w, j: _nic(s, w, j) | {
        "every_s": 2 * _step_s(j), "lasts_s": 0.4 * _step_s(j)},
    "slow_link": lambda s, w, j: _link(s, w, j) | {"factor": _factor(s, 0.05, 0.4)},
    "lossy_link": lambda s, w, j: _link(s, w, j) | {"probability": _factor(s, 0.01, 0.08)},
    "slow_switch": lambda s, w, j: {"switch": _switch(s, w, j), "factor": _factor(s, 0.05, 0.4)},
    "misconfigured_switch": lambda s, w, j: {
        "switch": _leaf(s, w, j), "direction": str(s.choice(["up", "down"])),
        "factor": _factor(s, 0.05, 0.3)},
    "failed_uplinks": lambda s, w, j: {
        "leaf": _leaf(s, w, j), "failed": w["cluster"]["fabric"]["spines"] - 1},
    "polarised_hashing": lambda s, w, j: {"leaf": _leaf(s, w, j)},
    "job_congestion": lambda s, w, j: {"between": ["train", "other"], "leaf": _leaf(s, w, j)},
    "incast_burst": lambda s, w, j: _nic(s, w, j) | {
        "senders": min(7, w["cluster"]["servers"] - 1),
        "burst_bytes": int(2e9 * _step_s(j)), "every_s": 1.3 * _step_s(j)},
    "slow_storage": lambda s, w, j: {
        "server": w["storage"][0], "factor": _factor(s, 0.1, 0.4)},
    "hang": lambda s, w, j: {"rank": _rank(s, j)} | _stopping(s),
    "crash": lambda s, w, j: {
        "rank": _rank(s, j), "into_step_s": round(0.5 * _step_s(j), 4)} | _stopping(s),
    "stopped_nic": lambda s, w, j: _nic(s, w, j) | _stopping(s),
}  # fmt: skip
"""What is drawn for each kind of fault: its place and its severity."""
