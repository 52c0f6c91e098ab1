"""LLDP neighbours as JSON: ``lldpcli -f json`` (or ``json0``), and SONiC's table of them.

One file a device, switch or server, called by the device's name (``leaf1.json``): the file itself
does not hold it. On SONiC, ``docker exec lldp lldpcli show neighbors -f json`` prints them, or
``sonic-db-dump -n APPL_DB -y``, which has the rates of ports as well. The media type that
``lldpcli`` prints is not taken for a rate: many switches report a wrong one.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmprism.ingest.network.parts import Neighbour, Parts
from llmprism.ingest.network.registry import register
from llmprism.ingest.notes import Notes
from prism_common.errors import Problem, UserError

NAMELESS = "LLDP neighbour without a name"
_SONIC, _SONIC_PORT = "LLDP_ENTRY_TABLE:", "PORT_TABLE:"
_FORWARDS = 0x28  # bridge and router in the first byte of the capabilities that SONiC keeps
_FORWARDING = {"Bridge", "Router"}


def _recognises(text: str, _name: str) -> bool:
    return text.lstrip().startswith("{") and ('"lldp"' in text or _SONIC in text)


@register("lldp", _recognises)
def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the neighbours of one device."""
    device = device_of(where)
    try:
        content = json.loads(text)
        found = list(_sonic(content, device) if _SONIC in text else _lldpcli(content, device))
    except (ValueError, RecursionError) as error:
        raise UserError(Problem(f"not valid JSON: {error}", where)) from error
    except (TypeError, KeyError, AttributeError, IndexError) as error:
        how = "print it with: lldpcli show neighbors -f json"
        raise UserError(Problem("not the JSON of lldpcli or SONiC", where, how)) from error
    return Parts(neighbours=without_names(found, notes))


def device_of(where: str) -> str:
    """The device whose neighbours a file has: the file is called by it.

    >>> device_of("lldp/leaf1.dc2.lldp.json")
    'leaf1.dc2'
    """
    name = Path(where).name
    for ending in (".json", ".txt", ".log", ".out", ".lldp"):
        name = name.removesuffix(ending)
    return name


def without_names(found: list[Neighbour], notes: Notes) -> list[Neighbour]:
    """Return the neighbours that have a name, and count the others."""
    named = [one for one in found if one.name]
    notes.drop(NAMELESS, len(found) - len(named))
    return named


def _lldpcli(content: dict[str, Any], device: str) -> Iterator[Neighbour]:
    for root in _listed(content["lldp"]):
        for port, body in _interfaces(root.get("interface", [])):
            name, chassis = _chassis(body["chassis"])
            remote = _listed(body.get("port", {}))[0]
            kinds = _listed(chassis.get("capability", []))
            active = {one["type"] for one in kinds if one.get("enabled")}
            yield Neighbour(
                device,
                port,
                name,
                _port_name(remote),
                address_of(texts_of(chassis.get("mgmt-ip", []))),
                bool(active & _FORWARDING) if active else None,
            )


def _interfaces(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and content of each interface: by key, or under ``name`` in ``json0``."""
    for one in _listed(node):
        if isinstance(one.get("name"), str):
            yield one["name"], one
        else:
            yield from one.items()


def _chassis(node: Any) -> tuple[str, dict[str, Any]]:
    """Return name and content of the neighbour; it may have no name."""
    one = _listed(node)[0]
    if "id" in one:
        return next(iter(texts_of(one.get("name", []))), ""), one
    return next(iter(one.items()), ("", {}))


def _port_name(port: dict[str, Any]) -> str:
    """Return the neighbour's name of its port: what it calls it rather than its MAC address."""
    number = _listed(port.get("id", {}))
    if number and number[0].get("type") == "ifname":
        return str(number[0].get("value", ""))
    return next(iter(texts_of(port.get("descr", [])) + texts_of(port.get("id", []))), "")


def _listed(node: Any) -> list[Any]:
    return node if isinstance(node, list) else [node]


def texts_of(node: Any) -> list[str]:
    """Return the values of a node, written as text, as an object or as a list of either."""
    return [str(one["value"]) if isinstance(one, dict) else str(one) for one in _listed(node)]


def address_of(texts: list[str]) -> str:
    """Return the first address that is not of one link only; empty if there is none."""
    for text in texts:
        try:
            address = ipaddress.ip_address(text.strip())
        except ValueError:
            continue
        if not address.is_link_local and not address.is_unspecified:
            return str(address)
    return ""


def _sonic(content: dict[str, Any], device: str) -> Iterator[Neighbour]:
    for key, entry in content.items():
        if not key.startswith(_SONIC):
            continue
        port = key.removeprefix(_SONIC)
        values = entry.get("value", entry)
        enabled = str(values.get("lldp_rem_sys_cap_enabled", "")).split()
        remote = values.get("lldp_rem_port_desc") or values.get("lldp_rem_port_id") or ""
        yield Neighbour(
            device,
            port,
            str(values.get("lldp_rem_sys_name") or ""),
            str(remote),
            address_of(str(values.get("lldp_rem_man_addr", "")).split(",")),
            bool(int(enabled[0], 16) & _FORWARDS) if enabled else None,
            _rate(content.get(_SONIC_PORT + port, {})),
        )


def _rate(entry: dict[str, Any]) -> float | None:
    """Return a port's rate [Gbit/s]; SONiC keeps Mbit/s."""
    speed = str(entry.get("value", entry).get("speed", ""))
    return int(speed) / 1000 if speed.isdecimal() and int(speed) else None
