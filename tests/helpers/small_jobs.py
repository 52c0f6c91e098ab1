"""Small worlds with a known truth, made without the simulator.

A *world* is the flow records, the topology and the truth of one training job: 1F1B pipelines of
data-parallel replicas. The times follow from the dependencies of each pass. They are exact, or have
a lognormal jitter on every pass.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism import Diagnosis
from llmprism.io.flows import FlowTable, place
from llmprism.io.loading import adopt
from llmprism.io.topology import Topology, parse_topology
from llmprism.pipeline import diagnose

BYTES_PER_NS = 50  # 400 Gbit/s
EPOCH = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Plan:
    """A job: its layout, the time of each pass [ns], and the size of each message [bytes]."""

    dp: int = 4
    pp: int = 2
    micro: int = 8
    steps: int = 14
    tp: int = 1
    forward_ns: int = 20_000_000
    backward_ns: int = 40_000_000
    optimizer_ns: int = 3_000_000
    message: int = 8_000_000
    buckets: tuple[int, ...] = (160_000_000, 250_000_000, 400_000_000, 330_000_000)
    jitter: float = 0.0
    slow: dict[tuple[int, int], float] = field(default_factory=dict)  # (replica, step): factor
    name: str = "a"  # first part of every address and server name
    start_ns: int = EPOCH
    seed: int = 0


@dataclass(frozen=True)
class World:
    """Flow records and topology, and the truth."""

    flows: pd.DataFrame
    topology: dict[str, Any]
    ranks: pd.DataFrame  # address, stage, replica, slice
    steps: pd.DataFrame  # address, step, start_ns, end_ns
    kinds: dict[tuple[str, str], str]

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write the two files a diagnoser reads; return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        flows, topology = folder / "flows.parquet", folder / "topology.json"
        pq.write_table(flow_table(self.flows), flows)
        topology.write_text(json.dumps(self.topology))
        return flows, topology


SCHEMA = pa.schema(
    [
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("bytes", pa.int64()),
        ("path", pa.string()),
    ]
)


def flow_table(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, schema=SCHEMA, preserve_index=False)


def schedule(pp: int, micro: int) -> list[list[tuple[str, int]]]:
    """The order of passes at each stage under 1F1B."""
    orders = []
    for stage in range(pp):
        warm = min(micro, pp - 1 - stage)
        order = [("F", j) for j in range(warm)]
        for j in range(micro - warm):
            order += [("F", warm + j), ("B", j)]
        orders.append(order + [("B", j) for j in range(micro - warm, micro)])
    return orders


def follow(
    plan: Plan, begin: list[float], factor: float, rng: np.random.Generator
) -> tuple[list[float], list[tuple[int, int, float]]]:
    """Run one replica's step; return each stage's end and the (from, to, start) of messages."""
    flight = plan.message / BYTES_PER_NS
    length = {"F": plan.forward_ns * factor, "B": plan.backward_ns * factor}
    orders, done = schedule(plan.pp, plan.micro), {}
    clock, at, messages = list(begin), [0] * plan.pp, []
    while any(at[i] < len(orders[i]) for i in range(plan.pp)):
        for i in range(plan.pp):
            if at[i] == len(orders[i]):
                continue
            kind, j = orders[i][at[i]]
            before, after = (i - 1, i + 1) if kind == "F" else (i + 1, i - 1)
            ready = 0.0
            if 0 <= before < plan.pp:
                if (kind, before, j) not in done:
                    continue
                ready = done[kind, before, j] + flight
            clock[i] = max(clock[i], ready) + length[kind] * rng.lognormal(0, plan.jitter)
            done[kind, i, j] = clock[i]
            at[i] += 1
            if 0 <= after < plan.pp:
                messages.append((i, after, clock[i]))
    return clock, messages


def make_world(**fields: Any) -> World:
    """The world of one job; ``fields`` are those of its plan."""
    plan = Plan(**fields)
    rng = np.random.default_rng(plan.seed)
    rows: list[tuple[float, float, int, int, int, int, int]] = []
    begin = [[0.0] * plan.pp for _ in range(plan.dp)]
    step_rows = []
    for step in range(plan.steps):
        ends = []
        for replica in range(plan.dp):
            factor = plan.slow.get((replica, step), 1.0)
            end, messages = follow(plan, begin[replica], factor, rng)
            ends.append(end)
            for a, b, start in messages:
                flight = plan.message / BYTES_PER_NS
                rows.append((start, start + flight, a, replica, b, replica, plan.message))
        for stage in range(plan.pp):
            now = max(end[stage] for end in ends)
            for phase in range(2):
                for size in plan.buckets if plan.dp > 1 else ():
                    for replica in range(plan.dp):
                        other = (replica + 1) % plan.dp
                        ring = (now, now + size / BYTES_PER_NS, stage, replica, stage, other, size)
                        rows.append(ring)
                    now += size / BYTES_PER_NS
                now += plan.optimizer_ns * (1 - phase)
            for replica in range(plan.dp):
                step_rows.append((stage, replica, step, begin[replica][stage], now))
                begin[replica][stage] = now
    return _named(plan, rows, step_rows)


def _named(plan: Plan, rows: list[Any], step_rows: list[Any]) -> World:
    """Give numbers their names, once for every slice of tensor parallelism."""
    columns = ["start_ns", "end_ns", "stage", "replica", "to_stage", "to_replica", "bytes"]
    raw = pd.DataFrame(rows, columns=columns)
    times = raw[["start_ns", "end_ns"]].round().astype("int64") + plan.start_ns
    ends = list(zip(raw.stage, raw.replica, raw.to_stage, raw.to_replica, strict=True))
    parts: list[pd.DataFrame] = []
    kinds: dict[tuple[str, str], str] = {}
    for k in range(plan.tp):
        src = [_address(plan, i, r, k) for i, r, _, _ in ends]
        dst = [_address(plan, i, r, k) for _, _, i, r in ends]
        path = [_path(plan, *four) for four in ends]
        parts.append(times.assign(src=src, dst=dst, bytes=raw["bytes"].astype("int64"), path=path))
        of_row = np.where(raw["stage"] == raw["to_stage"], "dp", "pp").tolist()
        kinds |= dict(zip(zip(src, dst, strict=True), of_row, strict=True))
    ranks = pd.DataFrame(
        [
            (_address(plan, i, r, k), i, r, k)
            for k in range(plan.tp)
            for i in range(plan.pp)
            for r in range(plan.dp)
        ],
        columns=["address", "stage", "replica", "slice"],
    )
    steps = pd.DataFrame(step_rows, columns=["stage", "replica", "step", "start_ns", "end_ns"])
    span = ["start_ns", "end_ns"]
    steps[span] = steps[span].round().astype("int64") + plan.start_ns
    flows = pd.concat(parts, ignore_index=True).sort_values("start_ns", kind="stable")
    return World(
        flows=flows.reset_index(drop=True),
        topology=_topology(plan, ranks),
        ranks=ranks,
        steps=ranks.merge(steps, on=["stage", "replica"]),
        kinds=kinds,
    )


def _address(plan: Plan, stage: int, replica: int, k: int) -> str:
    return f"{plan.name}.{stage}.{replica}.{k}"


def _leaf(plan: Plan, stage: int, replica: int) -> int:
    return (stage * plan.dp + replica) // 4


def _path(plan: Plan, stage: int, replica: int, to_stage: int, to_replica: int) -> str:
    up, down = _leaf(plan, stage, replica), _leaf(plan, to_stage, to_replica)
    if up == down:
        return f"leaf{up}"
    return f"leaf{up}|spine{(stage + replica) % 2}|leaf{down}"


def _topology(plan: Plan, ranks: pd.DataFrame) -> dict[str, Any]:
    leaves = [_leaf(plan, i, r) for i, r in zip(ranks.stage, ranks.replica, strict=True)]
    spines = ["spine0", "spine1"]
    names = [f"leaf{i}" for i in sorted(set(leaves))]
    endpoints = [
        {
            "address": rank.address,
            "server": f"{plan.name}-{rank.stage}-{rank.replica}",
            "nic": rank.slice,
            "gpus": [rank.slice],
            "switch": f"leaf{leaf}",
        }
        for rank, leaf in zip(ranks.itertuples(), leaves, strict=True)
    ]
    return {
        "endpoints": endpoints,
        "switches": [{"name": name, "tier": "leaf"} for name in names]
        + [{"name": name, "tier": "spine"} for name in spines],
        "links": [{"a": e["address"], "b": e["switch"], "gbps": 400} for e in endpoints]
        + [{"a": leaf, "b": spine, "gbps": 800} for leaf in names for spine in spines],
    }


def join_worlds(*worlds: World) -> World:
    """Several jobs with one collector."""
    switches: dict[str, Any] = {}
    links: dict[str, Any] = {}
    for world in worlds:
        switches |= {switch["name"]: switch for switch in world.topology["switches"]}
        links |= {json.dumps(link): link for link in world.topology["links"]}
    flows = pd.concat([world.flows for world in worlds]).sort_values("start_ns", kind="stable")
    return World(
        flows=flows.reset_index(drop=True),
        topology={
            "endpoints": [end for world in worlds for end in world.topology["endpoints"]],
            "switches": list(switches.values()),
            "links": list(links.values()),
        },
        ranks=pd.concat([world.ranks for world in worlds], ignore_index=True),
        steps=pd.concat([world.steps for world in worlds], ignore_index=True),
        kinds={pair: kind for world in worlds for pair, kind in world.kinds.items()},
    )


def read_world(world: World) -> tuple[FlowTable, Topology]:
    """The flow table and the topology, as a method gets them."""
    topology = parse_topology(world.topology)
    return place(adopt(world.flows), topology)[0], topology


def found(world: World) -> Diagnosis:
    """What the published method finds."""
    return diagnose(world.flows, world.topology, method="paper")


def simple_topology(addresses: list[str], servers: list[str] | None = None) -> dict[str, Any]:
    """A topology with addresses only, by default two for each server."""
    homes = servers or [f"s{i // 2}" for i in range(len(addresses))]
    ends = [{"address": a, "server": s} for a, s in zip(addresses, homes, strict=True)]
    return {"endpoints": ends, "switches": [], "links": []}


def rows_world(rows: list[Any], topology: dict[str, Any]) -> World:
    """A world of rows (start, end, src, dst, bytes[, path]), of which no truth is known."""
    padded = [row if len(row) == 6 else (*row, None) for row in rows]
    frame = pd.DataFrame(padded, columns=SCHEMA.names)
    return World(frame, topology, pd.DataFrame(), pd.DataFrame(), {})


def read_rows(rows: list[Any], topology: dict[str, Any]) -> tuple[FlowTable, Topology]:
    """The flow table and the topology of such rows."""
    return read_world(rows_world(rows, topology))
