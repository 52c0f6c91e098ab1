"""LLDP neighbours, one file a device, called by the device's name (``leaf1.json``).

The file itself does not hold that name. What is known of each format is a line of :data:`_JSON` or
:data:`_TABLES`:

- JSON of ``lldpcli -f json`` (or ``json0``), of SONiC (``sonic-db-dump -n APPL_DB -y``, which has
  the rates of ports as well), of ``show lldp neighbors | json`` (EOS, NX-OS; also with ``detail``,
  which has the capabilities) and ``| display json`` (Junos), of napalm, and of the model
  ``openconfig-lldp``. What a program puts around them is passed over. The media type that
  ``lldpcli`` prints is not taken for a rate: many switches report a wrong one.
- Tables of text, ``show lldp neighbors`` of EOS, IOS-XR, NX-OS and Junos. The line above the
  neighbours tells the format. EOS and Junos align their columns with it. Cisco cuts long names, or
  puts them on a line of their own, and has capabilities that may be missing: there, a neighbour is
  the line that has a hold time.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from llmprism.io.notes import Notes
from llmprism.network.parts import Neighbour, Parts
from prism_common.errors import Problem, UserError
from prism_common.untrusted import OutsideError, parsed

NAMELESS = "LLDP neighbour without a name"
_SONIC, _SONIC_PORT = "LLDP_ENTRY_TABLE:", "PORT_TABLE:"
_FORWARDS = 0x28  # bridge and router in the first byte of the capabilities that SONiC keeps
_FORWARDING = {"bridge", "router", "mac_bridge"}
_LETTERS = {"B", "R"}
_NAPALM = ({"hostname", "port"}, {"remote_system_name", "remote_port"})
_DEEPEST = 12  # objects around the neighbours
_ROW = re.compile(
    r"(?:(?P<name>\S+)\s+)?(?P<local>[A-Za-z][\w/.-]*\d|mgmt\d*)\s+(?P<hold>\d+)\s+"
    r"(?:(?P<kinds>[A-Z](?:[, ]*[A-Z])*|N/A|-)\s+)?(?P<port>\S+)\s*"
)


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    if any(f'"{key}"' in text for key in _JSON) or _SONIC in text or '"openconfig-lldp:' in text:
        return True
    return any(all(f'"{key}"' in text for key in keys) for keys in _NAPALM)


def recognises(text: str, _name: str) -> bool:
    """Whether a text has neighbours in one of these formats."""
    return _is_json(text) or any(head.search(text) for head, _ in _TABLES)


def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the neighbours of one device."""
    device = device_of(where)
    try:
        if _is_json(text):
            found = list(_of_json(parsed(text), device))
        else:
            match, of_table = next((m, read) for h, read in _TABLES if (m := h.search(text)))
            found = list(of_table(text, match, device))
        if not all(isinstance(each, str) for one in found for each in one[:5]):
            raise TypeError
    except OutsideError as error:
        raise UserError(Problem(str(error), where)) from error
    except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
        how = "print them with lldpcli show neighbors -f json, show lldp neighbors | json or"
        how += " sonic-db-dump -n APPL_DB -y; or write a CSV of cables (server, address, switch)"
        what = "not the LLDP neighbours of lldpcli, SONiC, EOS, Junos, NX-OS, napalm or OpenConfig"
        raise UserError(Problem(what, where, how)) from error
    named = [one for one in found if one.name]
    notes.drop(NAMELESS, len(found) - len(named))
    return Parts(neighbours=named)


def device_of(where: str) -> str:
    """The device whose neighbours a file has: the file is called by it.

    >>> device_of("lldp/leaf1.dc2.lldp.json")
    'leaf1.dc2'
    """
    name = Path(where).name
    for ending in (".json", ".txt", ".log", ".out", ".lldp"):
        name = name.removesuffix(ending)
    return name


def _of_json(content: Any, device: str) -> Iterator[Neighbour]:
    if isinstance(content, dict) and any(key.startswith(_SONIC) for key in content):
        yield from _sonic(content, device)
        return
    for key, read_kind in _JSON.items():
        if (found := _under(content, key)) is not None:
            yield from read_kind(found, device)
            return
    yield from _napalm(content.get("get_lldp_neighbors", content), device)


def _under(content: Any, *keys: str, depth: int = _DEEPEST) -> Any:
    """The first value with one of the keys, in whatever is around it."""
    if isinstance(content, list) and depth:
        inside = content[:1]
    elif isinstance(content, dict) and depth:
        for key in keys:
            if key in content:
                return content[key]
        inside = [each for each in content.values() if isinstance(each, dict | list)]
    else:
        return None
    found = (_under(each, *keys, depth=depth - 1) for each in inside)
    return next((one for one in found if one is not None), None)


def _lldpcli(found: Any, device: str) -> Iterator[Neighbour]:
    for root in _listed(found):
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
                bool({str(one).lower() for one in active} & _FORWARDING) if active else None,
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


def _eos(found: Any, device: str) -> Iterator[Neighbour]:
    """A list of neighbours, or with ``detail`` an object of them by port."""
    if isinstance(found, list):
        for one in found:
            yield Neighbour(device, one["port"], one["neighborDevice"], one["neighborPort"])
        return
    for port, body in found.items():
        for one in body["lldpNeighborInfo"]:
            remote = one.get("neighborInterfaceInfo", {})
            name = remote.get("interfaceId_v2") or str(remote.get("interfaceId", "")).strip('"')
            addresses = [each["address"] for each in one.get("managementAddresses", [])]
            kinds = one.get("systemCapabilities")
            forwards = None if not kinds else any(kinds.get(kind) for kind in _FORWARDING)
            system = one.get("systemName", "")
            yield Neighbour(device, port, system, name, address_of(addresses), forwards)


def _junos(found: Any, device: str) -> Iterator[Neighbour]:
    for one in _listed(found):
        values = {key: _data(value) for key, value in one.items()}
        port = values.get("lldp-local-interface") or values.get("lldp-local-port-id", "")
        remote = values.get("lldp-remote-port-description") or ""
        if remote in ("", "-") or remote == port:
            remote = values.get("lldp-remote-port-id", "")
        kinds = values.get("lldp-remote-system-capabilities-enabled", "").lower().split()
        forwards = bool(_FORWARDING.intersection(kinds)) if kinds else None
        address = address_of([values.get("lldp-remote-management-address", "")])
        name = values.get("lldp-remote-system-name", "")
        yield Neighbour(device, port, name, remote, address, forwards)


def _data(value: Any) -> str:
    """The text of a leaf, which Junos writes as a list of objects with ``data``."""
    first = _listed(value)[0] if _listed(value) else ""
    return str(first.get("data", "")) if isinstance(first, dict) else str(first)


def _nxos(found: Any, device: str) -> Iterator[Neighbour]:
    """Rows of the table; one without ``sys_name`` has the name of the device as its chassis."""
    for one in _listed(found):
        letters = str(one.get("enabled_capability", "")).replace(",", " ").replace(" ", "")
        known = letters.isalpha() and letters.isupper()
        yield Neighbour(
            device,
            str(one["l_port_id"]),
            str(one.get("sys_name") or one.get("chassis_id", "")),
            str(one.get("port_id", "")),
            address_of([str(one.get("mgmt_addr", ""))]),
            bool(_LETTERS.intersection(letters)) if known else None,
        )


def _openconfig(found: Any, device: str) -> Iterator[Neighbour]:
    inside = found.get("interfaces", found)
    for interface in _listed(inside.get("interface", [])):
        for one in _listed(interface.get("neighbors", {}).get("neighbor", [])):
            state = one["state"]
            address = address_of(texts_of(state.get("management-address", [])))
            port = state.get("port-id") or state.get("port-description", "")
            yield Neighbour(device, interface["name"], state.get("system-name", ""), port, address)


def _napalm(found: Any, device: str) -> Iterator[Neighbour]:
    for port, neighbours in found.items():
        for one in neighbours:
            kinds = one.get("remote_system_enable_capab")
            words = {str(each).lower().replace("-", "_") for each in _listed(kinds or [])}
            yield Neighbour(
                device,
                port,
                str(one.get("hostname") or one.get("remote_system_name") or ""),
                str(one.get("port") or one.get("remote_port") or ""),
                "",
                bool(words & _FORWARDING) if words else None,
            )


_JSON: dict[str, Callable[[Any, str], Iterator[Neighbour]]] = {
    "lldpNeighbors": _eos, "lldp-neighbor-information": _junos, "ROW_nbor": _nxos,
    "ROW_nbor_detail": _nxos, "openconfig-lldp:lldp": _openconfig,
    "openconfig-lldp:interfaces": _openconfig, "lldp": _lldpcli,
}  # fmt: skip
"""Readers of JSON by the key that the neighbours are under."""


def _aligned(
    text: str, head: re.Match[str], device: str, name: int, port: int, need: int
) -> Iterator[Neighbour]:
    """The neighbours below the head, in cells that begin where the names of their columns do."""
    line = text[head.start() :].split("\n", 1)[0]
    starts = [one.start() for one in re.finditer(r"\S+(?: \S+)*", line)]
    for row in text[head.start() :].split("\n")[1:]:
        if not row.strip() or not row.strip("- "):
            continue
        ends = [*starts[1:], None]
        cells = [row[begin:end].strip() for begin, end in zip(starts, ends, strict=True)]
        if cells[0] and cells[need]:
            yield Neighbour(device, cells[0], cells[name], cells[port])


def _cisco(text: str, head: re.Match[str], device: str) -> Iterator[Neighbour]:
    """The rows of IOS-XR and NX-OS; a long name is on the line before the others."""
    alone = ""
    for line in text[head.end() :].split("\n")[1:]:
        match = _ROW.fullmatch(line.strip())
        if match is None:
            words = line.split()
            alone = words[0] if len(words) == 1 else ""
            continue
        letters = set(re.findall("[A-Z]", match["kinds"] or "")) if match["kinds"] != "N/A" else ()
        forwards = bool(_LETTERS.intersection(letters)) if letters else None
        name = match["name"] or alone
        yield Neighbour(device, match["local"], name, match["port"], "", forwards)
        alone = ""


_Table = Callable[[str, re.Match[str], str], Iterator[Neighbour]]
_TABLES: tuple[tuple[re.Pattern[str], _Table], ...] = tuple(
    (re.compile(rf"^{head}", re.MULTILINE), of_table)
    for head, of_table in (
        (
            r"Port\s+Neighbor Device ID\s+Neighbor Port ID\s+TTL",
            lambda text, head, device: _aligned(text, head, device, 1, 2, 2),
        ),
        (
            r"Local Interface\s+Parent Interface\s+Chassis Id\s+Port info\s+System Name",
            lambda text, head, device: _aligned(text, head, device, 4, 3, 0),
        ),
        (r"Device ID\s+Local Intf\s+Hold-time\s+Capability\s+Port ID", _cisco),
    )
)
"""The heads of tables, and how the lines below are read."""
