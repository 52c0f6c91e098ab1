"""Cuts the fixture of the tests from the hour: ten minutes of a few servers, renamed.

The servers of three jobs that differ in their steps, one job of 30 servers of which four are taken,
and idle ones. Names and addresses are new; times and bytes are those of the traces.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.paths import ROOT
from evaluation.production.page import number_of
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.zhejiang import read, topology_of

FOLDER = ROOT / "tests" / "fixtures" / "counters"
SERVERS = (66, 92, 115, 215, 34, 74, 109, 189, 13, 26, 55, 103, 4, 49, 90, 256, 20, 35)
"""By the number in their names; those of one job follow each other, and the last two are idle."""
FROM_NS = 1_716_481_200_000_000_000
"""20 minutes into the hour."""
LENGTH_NS = 600_000_000_000


def write(folder: Path) -> Path:
    """Write the fixture from the traces below ``folder``."""
    content = topology_of(folder)
    new = {str(number): f"n{place:02}" for place, number in enumerate(SERVERS)}
    names = {
        end["address"]: (new[number_of(end["server"])], end["nic"], f"leaf-{end['nic']}")
        for end in content["endpoints"]
        if number_of(end["server"]) in new
    }
    columns: dict[str, list[np.ndarray]] = {"time_ns": [], "in_bytes": [], "out_bytes": []}
    ports: list[str] = []
    for port in read(folder, Options(from_ns=FROM_NS)).ports:
        if port.port in names:
            kept = (port.time_ns >= FROM_NS) & (port.time_ns < FROM_NS + LENGTH_NS)
            columns["time_ns"].append(port.time_ns[kept])
            for name in ("in_bytes", "out_bytes"):
                columns[name].append(port.values[name][kept])
            ports += [_address(*names[port.port][:2])] * int(kept.sum())
    FOLDER.mkdir(parents=True, exist_ok=True)
    table = pa.table(
        {"port": pa.array(ports).dictionary_encode()}
        | {name: np.concatenate(parts) for name, parts in columns.items()}
    ).replace_schema_metadata({"counters": "differences", "side": "switch"})
    pq.write_table(table, FOLDER / "production.parquet", compression="zstd", compression_level=19)
    text = json.dumps(_topology(sorted(names.values())), indent=1) + "\n"
    (FOLDER / "topology.json").write_text(text, encoding="utf-8")
    return FOLDER


def _address(server: str, nic: int) -> str:
    return f"10.{nic}.0.{server[1:].lstrip('0') or '0'}"


def _topology(names: list[tuple[str, int, str]]) -> dict[str, object]:
    leaves = sorted({leaf for _, _, leaf in names})
    return {
        "endpoints": [
            {"address": _address(server, nic), "server": server, "nic": nic, "switch": leaf}
            for server, nic, leaf in names
        ],
        "switches": [{"name": leaf, "tier": "leaf"} for leaf in leaves],
        "links": [{"a": _address(s, nic), "b": leaf, "gbps": 200} for s, nic, leaf in names],
    }
