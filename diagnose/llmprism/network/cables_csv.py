"""A table of cables: server, NIC, address, switch, port, Gbit/s; one line a NIC.

A NIC with several ports has one line a port: with one address (a bond), or with the number of the
port (``nic_port``) and an address each. ``domain`` names the NVLink domain of the server. A line
without an address describes a cable between two switches: ``server`` is the other one.
"""

from __future__ import annotations

import csv

from llmprism.io.notes import Notes
from llmprism.network.parts import Cable, Nic, Parts
from prism_common.errors import Problem, UserError

_NEEDED = ("server", "address", "switch")
_RATES = ("gbps", "gbit/s", "speed", "rate")


def recognises(text: str, _name: str) -> bool:
    """Whether a text, or the name of its file, is of this format."""
    head = {name.strip().lower() for name in text.split("\n", 1)[0].split(",")}
    return set(_NEEDED) <= head


def read(text: str, where: str, _notes: Notes) -> Parts:
    """Return the network of a table of cables."""
    parts = Parts()
    problems: list[Problem] = []
    for line, raw in enumerate(_rows(text, where), start=2):
        row = {
            str(k).strip().lower(): (v or "").strip() for k, v in raw.items() if isinstance(v, str)
        }
        if not row.get("server") or not row.get("switch"):
            problems.append(Problem("a cable needs a server and a switch", f"{where}:{line}"))
            continue
        try:
            _add(parts, row)
        except ValueError as error:
            problems.append(Problem(str(error), f"{where}:{line}"))
    if problems:
        raise UserError(problems[:50])
    return parts


def _rows(text: str, where: str) -> list[dict[str | None, str | list[str] | None]]:
    try:
        return list(csv.DictReader(text.splitlines()))
    except csv.Error as error:
        raise UserError(Problem(f"not a table of cables: {error}", where)) from error


def _add(parts: Parts, row: dict[str, str]) -> None:
    """Add a NIC, or the cable between two switches that a line without an address is."""
    server, switch = row["server"], row["switch"]
    gbps = _rate(next((row[name] for name in _RATES if row.get(name)), ""))
    if row.get("address"):
        nic = row.get("nic", "")
        number = int(nic) if nic.isdecimal() else None
        own = row.get("nic_port", "")
        port = int(own) if own.isdecimal() and number is not None else None
        parts.nics.append(Nic(server, nic, switch, gbps, row["address"], "", number, port))
        if row.get("domain"):
            parts.domains[server] = row["domain"]
        parts.switches.add(switch)
    else:
        parts.cables.append(Cable(server, switch, gbps))
        parts.switches |= {server, switch}


def _rate(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise ValueError(f"{text!r} is no number of Gbit/s") from None
