"""Diagnoses the hour, and compares what each rail alone shows.

All NICs of a server do the same job, so jobs that are found from the ports of one rail alone have
to agree with those of another one. This needs no labels, and the diagnosis of one rail has seen
nothing of another.

``trafficinfo/HOUR/SWITCH/PORT.csv`` has what a port moved since the reading before it. The map of
servers, NICs and ports is a workbook, ``cluster_*.xlsx``; without it, each port is called by its
switch and its own name. Only ports of the map are read: the others lead to spines, or nowhere.
"""

from __future__ import annotations

import re
import resource
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from llmprism.counters.curves import Curves
from llmprism.counters.diagnosing import CounterDiagnosis, diagnose, link_bps
from llmprism.counters.jobs import disagreement, find_jobs
from llmprism.counters.readings import PortReadings, Readings
from llmprism.io.topology import Topology, parse_topology
from llmprism.numerics.arrays import Ints
from prism_common.errors import Problem, UserError

COLUMNS = {"InOctets": "in_bytes", "OutOctets": "out_bytes"}
_TIME, _SWITCH, _PORT = "SaveTimeUTC", "DeviceName", "PortName"
_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_MS = 1_000_000
_RATE_GBPS = {"TwentyFive": 25, "Hundred": 100, "TwoHundred": 200, "FourHundred": 400}


def read(path: Path) -> Readings:
    """Read the ports of the map."""
    places = {(row["switch"], row["port"]): row["address"] for row in port_map(path)}
    ports, counts = [], Counter[str]()
    for file in sorted(_files(path)):
        table = _table(file)
        if not table.num_rows:
            counts["files without readings"] += 1
            continue
        name = (table[_SWITCH][0].as_py(), table[_PORT][0].as_py())
        if places and name not in places:
            counts["ports that the map does not have"] += 1
            continue
        ports.append(PortReadings(places.get(name, "/".join(name)), *_values(table)))
    return Readings("differences", ports, counts)


def _files(path: Path) -> Iterator[Path]:
    """The files of ports: of ``trafficinfo/HOUR/SWITCH``, or of a folder of such folders."""
    for pattern in ("trafficinfo/*/*/*.csv", "*/trafficinfo/*/*/*.csv"):
        files = [file for file in path.glob(pattern) if re.search(r"eaf-\d+_[\d_]+$", file.stem)]
        if files:
            return iter(files)
    return iter(())


def _table(file: Path) -> pa.Table:
    names = [_TIME, _SWITCH, _PORT, *COLUMNS]
    return pc.read_csv(
        file,
        read_options=pc.ReadOptions(use_threads=False),
        convert_options=pc.ConvertOptions(
            include_columns=names, column_types=dict.fromkeys((_SWITCH, _PORT), pa.string())
        ),
    )


def _values(table: pa.Table) -> tuple[Any, dict[str, Any]]:
    time_ns = table[_TIME].to_numpy().astype(np.int64) * _MS
    return time_ns, {o: table[t].to_numpy().astype(np.int64) for t, o in COLUMNS.items()}


def port_map(path: Path) -> list[dict[str, Any]]:
    """Address, server, index of the NIC, switch and port of each NIC of the workbook.

    NICs are numbered by the order of their names within a server, as PCI slots are; ports on no
    map have no entry.
    """
    books = [book for above in ("", "../", "../../") for book in path.glob(f"{above}*.xlsx")]
    books += list(path.glob("*/*.xlsx"))
    if not books:
        return []
    servers: dict[str, list[dict[str, str]]] = {}
    for row in _rows(books[0]):
        if "sysname" in row and "switchname" in row:
            servers.setdefault(row["sysname"], []).append(row)
    found: list[dict[str, Any]] = []
    for server, rows in servers.items():
        for nic, row in enumerate(sorted(rows, key=lambda row: row.get("nicname", "~"))):
            port = row.get("accessport") or row["portname"]
            address = row.get("serverIP") or f"{server}:{nic}"
            found.append({"server": server, "nic": nic, "switch": row["switchname"],
                          "port": port, "address": address})  # fmt: skip
    return found


def _rows(book: Path) -> Iterator[dict[str, str]]:
    """Rows of the first sheet of a workbook, by the names in its first row."""
    with zipfile.ZipFile(book) as archive:
        texts = ElementTree.fromstring(archive.read("xl/sharedStrings.xml"))
        shared = ["".join(part.text or "" for part in text.iter(f"{_SHEET}t")) for text in texts]
        sheet = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    names: dict[str, str] = {}
    for row in sheet.iter(f"{_SHEET}row"):
        cells = {}
        for cell in row.iter(f"{_SHEET}c"):
            value = cell.find(f"{_SHEET}v")
            if value is not None and value.text is not None:
                text = shared[int(value.text)] if cell.get("t") == "s" else value.text
                cells[re.sub(r"\d", "", cell.get("r", ""))] = text
        if not names:
            names = cells
            continue
        yield {names[column]: text for column, text in cells.items() if column in names}


def topology_of(path: Path) -> dict[str, Any]:
    """The content of a ``topology.json`` from the workbook.

    Raises
    ------
    UserError : there is no workbook.
    """
    rows = port_map(path)
    if not rows:
        raise UserError(Problem("no workbook with the map of ports", str(path), "name --topology"))
    endpoints = [{key: row[key] for key in ("address", "server", "nic", "switch")} for row in rows]
    switches = [{"name": name, "tier": "leaf"} for name in sorted({r["switch"] for r in rows})]
    rates = [_RATE_GBPS.get(row["port"].partition("Gig")[0]) for row in rows]
    links = [
        {"a": row["address"], "b": row["switch"], "gbps": rate}
        for row, rate in zip(rows, rates, strict=True)
    ]
    return {"endpoints": endpoints, "switches": switches, "links": links}


NAIVE_SAME = 0.02
"""By which the bytes of two ports of a naive group differ at most."""


@dataclass(frozen=True)
class Hour:
    """What was measured.

    Attributes
    ----------
    result : the diagnosis of all ports.
    values : readings in both directions.
    rails : for each couple of rails: their numbers, couples of servers that are together on either,
        and on one of them only.
    naive : couples of servers that are together on either of two rails, and on one only, if ports
        are grouped by equal bytes.
    cpu_s, peak_bytes : of reading and diagnosing.
    """

    result: CounterDiagnosis
    topology: Topology
    values: int
    rails: Sequence[tuple[int, int, int, int]]
    naive: tuple[int, int]
    cpu_s: float
    peak_bytes: int


def measure(folder: Path) -> Hour:
    """Read and diagnose the traces below ``folder``.

    Raises
    ------
    UserError : they are not there.
    """
    began = time.process_time()
    topology = parse_topology(topology_of(folder), str(folder))
    return measured(read(folder), topology, began)


def measured(readings: Readings, topology: Topology, began_s: float) -> Hour:
    """Diagnose all ports, and each rail alone; ``began_s`` is the CPU time before reading."""
    result = diagnose(readings, topology)
    took_s = time.process_time() - began_s
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    by_rail = jobs_by_rail(result, topology)
    rails = [
        (first, second, *agreement(by_rail[first], by_rail[second]))
        for first, second in combinations(sorted(by_rail), 2)
    ]
    values = 2 * sum(port.time_ns.size for port in readings.ports)
    naive = [agreement(*pair) for pair in combinations(naive_by_rail(result, topology).values(), 2)]
    together, apart = (sum(counts) for counts in zip(*naive, strict=True))
    return Hour(result, topology, values, rails, (together, apart), took_s, peak)


def jobs_by_rail(result: CounterDiagnosis, topology: Topology) -> dict[int, dict[int, int]]:
    """The job of each busy server, from the ports of one rail alone, by rail.

    A server without a job is a group of its own.
    """
    nics = np.array([topology.endpoints[code].nic for code in result.codes])
    servers = topology.servers[result.codes].astype(np.int64)
    limits = link_bps(topology)[result.codes]
    found = {}
    for rail in np.unique(nics):
        rows = np.flatnonzero(nics == rail)
        part = part_of(result.curves, rows)
        jobs = find_jobs(part, servers[rows], limits[rows])
        alone = -1 - np.arange(rows.size)
        groups = np.where(jobs.job >= 0, jobs.job, alone)
        found[int(rail)] = {
            int(servers[rows[place]]): int(groups[place]) for place in np.flatnonzero(jobs.busy)
        }
    return found


def part_of(curves: Curves, rows: Ints) -> Curves:
    """The curves of some of the ports."""
    return replace(
        curves,
        ports=[curves.ports[row] for row in rows],
        moved=curves.moved[rows],
        known=curves.known[rows],
        pace=curves.pace[rows],
    )


def agreement(first: dict[int, int], second: dict[int, int]) -> tuple[int, int]:
    """Couples of servers busy on both rails that are together on either, and on one only."""
    both = sorted(first.keys() & second.keys())
    return disagreement([first[server] for server in both], [second[server] for server in both])


def naive_by_rail(result: CounterDiagnosis, topology: Topology) -> dict[int, dict[int, int]]:
    """Groups of busy servers with equal bytes on a rail, without any regard to time."""
    nics = np.array([topology.endpoints[code].nic for code in result.codes])
    servers = topology.servers[result.codes]
    size = result.curves.moved.sum(axis=2, dtype=np.float64).min(axis=1)
    found = {}
    for rail in np.unique(nics):
        rows = np.flatnonzero((nics == rail) & result.jobs.busy)
        order = rows[np.argsort(size[rows])]
        jumps = np.diff(np.log(np.maximum(size[order], 1.0))) > NAIVE_SAME
        groups = np.concatenate([[0], np.cumsum(jumps)])
        found[int(rail)] = dict(zip(servers[order].tolist(), groups.tolist(), strict=True))
    return found


def steps_of_parts(result: CounterDiagnosis) -> list[dict[str, Any]]:
    """For each job: median and spread of its single steps, and what stands out."""
    rows = []
    for number in range(result.jobs.count):
        name = f"job-{number}"
        steps = result.diagnosis.steps[result.diagnosis.steps["job"] == name]
        own = steps[steps["address"] == steps["address"].iloc[0]] if len(steps) else steps
        took_s = ((own["end_ns"] - own["start_ns"]) / 1e9).to_numpy(float)
        rows.append(
            {
                "steps": took_s.size,
                "low_s": float(np.quantile(took_s, 0.05)) if took_s.size else None,
                "median_s": float(np.median(took_s)) if took_s.size else None,
                "high_s": float(np.quantile(took_s, 0.95)) if took_s.size else None,
            }
        )
    return rows
