"""How a communication library writes its records: the options, and the file of one process."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from prism_sim.draws import Draws
from prism_sim.scenario.base import Closed

Record = dict[str, Any]
BUS = {"AllReduce": 2.0, "ReduceScatter": 1.0, "AllGather": 1.0, "AlltoAll": 1.0}
"""Bytes that cross the bus for each byte of a collective of many ranks (nccl-tests)."""
COLUMNS = ["id", "name", "place", "n_ranks", "nodes", "coll", "sn", "peer", "size",
           "called_ns", "start_ns", "end_ns"]  # fmt: skip


class Inspector(Closed):
    """How the library records operations; ``collectives/`` has a file for each process."""

    jobs: tuple[str, ...] | None = None
    """Jobs whose processes write. Left out: all."""
    one_in: int = Field(default=1, ge=1, le=1_000_000)
    """Of the ranks of a job, one in so many writes."""
    messages: bool = Field(default=True, description="Record messages between two ranks as well.")
    min_bytes: int = Field(default=8192, ge=0, le=2**40)
    """Smallest operation that is recorded [bytes]."""
    interval_s: float | None = Field(default=0.0005, ge=1e-4, le=86_400)
    """Time between two dumps [s]. The plugin's examples: 0.0005. null: only at the end of the
    process."""
    ring: int = Field(default=1024, ge=1, le=2**30)
    """Records of a communicator that a process keeps until the next dump; newer ones overwrite the
    oldest."""
    loss: float = Field(default=0.0, ge=0, lt=1)
    """Share of the records that are lost later."""
    timing: Literal["kernel_gpu", "kernel_cpu", "collective_cpu"] = "kernel_gpu"
    """Source of times. collective_cpu: since the call, so they contain the wait for the last
    collective of the same communicator."""
    clock_s: float = Field(default=0.0, ge=0, le=1e6)
    """Standard deviation of the clocks of servers [s]. Practice: 0.001 with NTP."""
    verbose: bool = Field(default=False, description="Write the times of events as well.")
    names: bool = Field(default=False, description="Write names of communicators, as DP Group 0.")
    form: Literal["v4.0", "v4.3"] = "v4.0"
    """v4.0: each line has its header. v4.3: each dump of a communicator has one, with the number of
    records that the ring lost."""


def write_process(
    folder: Path, options: Inspector, records: pd.DataFrame, home: tuple[str, int], draws: Draws
) -> int:
    """Write the records of the process at ``home`` (server, pid); returns their number."""
    server, pid = home
    offset_ns = round(draws.stream("clock", server).standard_normal() * options.clock_s * 1e9)
    stream = draws.stream("dumps", server, pid)
    ordered = records[COLUMNS].sort_values("end_ns", kind="stable")
    columns = {name: ordered[name].tolist() for name in COLUMNS}
    columns["dump_ns"] = _dumps_ns(ordered["end_ns"].to_numpy(), options, stream).tolist()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    is_lost = (stream.random(len(rows)) < options.loss).tolist()
    with (folder / f"{server}-pid{pid}.jsonl").open("w", encoding="utf-8") as out:
        lines = [*_lines(options, zip(rows, is_lost, strict=True), home, offset_ns)]
        out.writelines(f"{json.dumps(line)}\n" for line in lines)
    return sum("dump_stats" not in line for line in lines)


def _dumps_ns(
    end_ns: np.ndarray[Any, Any], options: Inspector, stream: np.random.Generator
) -> np.ndarray[Any, Any]:
    """When each record is dumped: at the next wake of the thread, or at the end of all."""
    if options.interval_s is None:
        return np.full(end_ns.size, end_ns[-1] + 1)
    period_ns = round(options.interval_s * 1e9)
    phase_ns = int(stream.integers(period_ns))
    dumps: np.ndarray[Any, Any] = -(-(end_ns - phase_ns) // period_ns) * period_ns + phase_ns
    return dumps


def _lines(
    options: Inspector, rows: Iterator[tuple[Record, bool]], home: tuple[str, int], offset_ns: int
) -> Iterator[Record]:
    """The objects of all dumps: of each communicator, its collectives and then its messages."""
    total: dict[tuple[int, str], int] = defaultdict(int)
    for dump_ns, together in groupby(rows, lambda row: row[0]["dump_ns"]):
        rings: dict[int, dict[str, list[tuple[Record, bool]]]] = {}
        for row in together:
            kind = "coll" if row[0]["peer"] < 0 else "p2p"
            rings.setdefault(row[0]["id"], {"coll": [], "p2p": []})[kind].append(row)
        for ident, of_kind in sorted(rings.items(), key=itemgetter(0)):
            stats: dict[str, int] = {}
            fields: list[Record] = []
            for kind, ring in of_kind.items():
                kept = [row for row, is_lost in ring[-options.ring :] if not is_lost]
                total[ident, kind] += max(len(ring) - options.ring, 0)
                stats[f"{kind}_records"] = min(len(ring), options.ring)
                stats[f"{kind}_dropped_total"] = total[ident, kind]
                stats[f"{kind}_dropped_since_last_dump"] = max(len(ring) - options.ring, 0)
                fields += (_performance(options, row, offset_ns, kind) for row in kept)
            first = next(ring[0][0] for ring in of_kind.values() if ring)
            head = _head(options, first, home, (dump_ns + offset_ns) // 1000)
            if options.form == "v4.0":
                yield from ({**head, **one} for one in fields)
            else:
                yield {**head, "dump_stats": stats}
                yield from fields


def _head(options: Inspector, row: Record, home: tuple[str, int], dump_us: int) -> Record:
    """The communicator of a record, and the process and the time of its dump."""
    return {
        "header": {
            "id": f"{row['id']:#x}",
            "comm_name": row["name"] if options.names else "unknown",
            "rank": row["place"],
            "n_ranks": row["n_ranks"],
            "nnodes": row["nodes"],
        },
        "metadata": {
            "inspector_output_format_version": options.form,
            "git_rev": "simulated",
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": dump_us,
            "hostname": home[0],
            "pid": home[1],
        },
    }


def _performance(options: Inspector, row: Record, offset_ns: int, kind: str) -> Record:
    """What the library says of one operation."""
    exec_us = round((row["end_ns"] - row["start_ns"]) / 1000)
    rate = row["size"] / max(exec_us, 1) / 1000
    ranks = row["n_ranks"]
    bus = 1.0 if kind == "p2p" else BUS[row["coll"]] * (ranks - 1) / ranks
    fields = {
        kind: row["coll"],
        f"{kind}_sn": row["sn"],
        **({"p2p_peer": row["peer"]} if kind == "p2p" else {}),
        f"{kind}_msg_size_bytes": row["size"],
        f"{kind}_exec_time_us": exec_us,
        f"{kind}_timing_source": options.timing,
        f"{kind}_algobw_gbs": round(rate, 6),
        f"{kind}_busbw_gbs": round(rate * bus, 6),
    }
    if options.verbose:
        fields |= _events(row, offset_ns, kind)
    return {f"{kind}_perf": fields}


def _events(row: Record, offset_ns: int, kind: str) -> Record:
    """The times of an operation's events by the clock of the host [us]."""
    names = ("called_ns", "start_ns", "end_ns")
    called_us, begin_us, end_us = ((row[name] + offset_ns) // 1000 for name in names)
    kernel = {"kernel_start_ts": begin_us, "kernel_stop_ts": end_us, "kernel_record_ts": end_us}
    return {
        "event_trace_sn": {f"{kind}_start_sn": 1, f"{kind}_stop_sn": 2, "kernel_events": []},
        "event_trace_ts": {
            f"{kind}_start_ts": called_us,
            f"{kind}_stop_ts": called_us,
            "kernel_events": [{"channel_id": 0, **kernel}],
        },
    }
