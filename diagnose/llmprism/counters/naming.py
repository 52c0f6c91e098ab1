"""Which NIC of the topology each port is.

A port is known by the address of the NIC at its other end, also after the name of its switch and a
slash, or by the names of its switch and interface, which a file with ``port`` and ``address``
translates (``--ports``). A NIC has as many ports as leaves.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmprism.counters.readings import PortReadings
from llmprism.io.sources import read_text
from llmprism.io.topology import Topology
from prism_common.errors import Problem, UserError

LISTED = 5
LARGEST_BYTES = 1 << 26
"""Of the file of addresses."""


def read_ports(path: Path) -> dict[str, str]:
    """The address of each port: a CSV with the columns ``port`` and ``address``.

    A column ``switch`` goes before the port, with a slash.
    """
    try:
        rows = list(csv.DictReader(read_text(path, LARGEST_BYTES).splitlines()))
    except csv.Error as error:
        raise UserError(Problem(f"cannot read this: {error}", str(path))) from error
    if not rows or not {"port", "address"} <= rows[0].keys():
        raise UserError(Problem("no columns port and address", str(path), "switch,port,address"))
    return {_name(row): str(row["address"]) for row in rows}


def _name(row: Mapping[str, str]) -> str:
    return f"{row['switch']}/{row['port']}" if row.get("switch") else str(row["port"])


def placed(
    ports: Sequence[PortReadings], topology: Topology, addresses: Mapping[str, str]
) -> tuple[list[tuple[int, PortReadings]], Counter[str]]:
    """Each known port with the code of its endpoint; names of the others with their readings.

    Raises
    ------
    UserError : no port is known, or a NIC has more ports than cables.
    """
    known: list[tuple[int, PortReadings]] = []
    unknown: Counter[str] = Counter()
    names: dict[int, list[str]] = {}
    for port in ports:
        every = (addresses.get(name, name) for name in (port.port, *port.aliases))
        code = next(
            (one for one in (_code(topology, name) for name in every) if one is not None), None
        )
        if code is None:
            unknown[port.port] += port.time_ns.size
            continue
        before = names.setdefault(code, [])
        if port.port in before:  # another counter of the same port
            known.append((code, port))
            continue
        if len(before) >= max(1, len(topology.leaves[code])):
            what = f"{before[0]} and {port.port} are both {topology.addresses[code]}"
            raise UserError(Problem(what, "--ports", "give each port an address of its own"))
        before.append(port.port)
        known.append((code, port))
    if ports and not known:
        first = ", ".join(list(unknown)[:LISTED])
        how = "name the file that has the address of each port: --ports FILE (switch,port,address)"
        raise UserError(Problem(f"no port is an address of the topology ({first})", "", how))
    return known, unknown


def _code(topology: Topology, name: str) -> int | None:
    """The endpoint with this address, or with the address after ``switch/``; None if unknown."""
    switch, _, address = name.rpartition("/")
    code = topology.codes.get(address)
    return code if code is None or not switch or switch in topology.leaves[code] else None
