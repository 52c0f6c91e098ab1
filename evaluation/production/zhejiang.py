"""The traces of Zhejiang Lab: a folder with a file for every port of every switch.

``trafficinfo/HOUR/SWITCH/PORT.csv`` has what the port moved since the reading before it. The
map of servers, NICs and ports is a workbook, ``cluster_*.xlsx``; without it, each port is
called by its switch and its own name. Only ports of the map are read: the others lead to
spines, or nowhere.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from llmprism.counters.readings import PortReadings, Readings
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
