"""A table of cables: server, NIC, address, switch, port, Gbit/s; one line a NIC.

A line without an address describes a cable between two switches: ``server`` is the other one.
"""

from __future__ import annotations

import csv
from typing import Any

from llmprism.errors import Problem, UserError
from llmprism.ingest.network import Content, assemble, register

_NEEDED = ("server", "address", "switch")
_RATES = ("gbps", "gbit/s", "speed", "rate")


def _recognises(text: str, _name: str) -> bool:
    head = {name.strip().lower() for name in text.split("\n", 1)[0].split(",")}
    return set(_NEEDED) <= head


@register("cables_csv", _recognises)
def read(text: str, where: str) -> Content:
    """Return the network of a table of cables."""
    endpoints: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    switches: set[str] = set()
    problems: list[Problem] = []
    rows = csv.DictReader(text.splitlines())
    for line, raw in enumerate(rows, start=2):
        row = {
            str(k).strip().lower(): (v or "").strip() for k, v in raw.items() if isinstance(v, str)
        }
        place = f"{where}:{line}"
        rate = next((row[name] for name in _RATES if row.get(name)), "")
        if not row.get("server") or not row.get("switch"):
            problems.append(Problem("a cable needs a server and a switch", place))
            continue
        try:
            gbps = float(rate) if rate else None
            nic = int(row["nic"]) if row.get("nic", "").isdecimal() else None
        except ValueError:
            problems.append(Problem(f"{rate!r} is no number of Gbit/s", place))
            continue
        switches.add(row["switch"])
        if row.get("address"):
            end = {"address": row["address"], "server": row["server"], "switch": row["switch"]}
            endpoints.append({**end, "nic": nic})
            links.append({"a": row["address"], "b": row["switch"], "gbps": gbps})
        else:
            switches.add(row["server"])
            links.append({"a": row["server"], "b": row["switch"], "gbps": gbps})
    if problems:
        raise UserError(problems[:50])
    return assemble(endpoints, links, switches)
