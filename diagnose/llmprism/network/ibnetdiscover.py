"""The output of ``ibnetdiscover``: an InfiniBand network as its subnet shows it.

A block describes one device; each of its lines is a port with a cable. Of channel adapters
(``Ca``) the description names server and NIC (``gpu01 mlx5_0``, ``gpu01 HCA-1``). Flows of
InfiniBand name GUIDs or LIDs or the addresses of IPoIB: without ``--hosts`` the address of a NIC
is its port's GUID. Nodes that switches use to reduce data (SHARP) are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from llmprism.io.notes import Notes
from llmprism.network.parts import Cable, Nic, Parts, plain_name
from prism_common.errors import Problem, UserError

_DEVICE = re.compile(r'^(Switch|Ca|Rt)\s+\d+\s+"([SHR]-[0-9a-fA-F]+)"\s*#\s*"([^"]*)"')
_PORT = re.compile(
    r'^\[(\d+)\](?:\[ext [^\]]*\])?(?:\(([0-9a-fA-F]+)\))?\s+"([SHR]-[0-9a-fA-F]+)"\[(\d+)\]'
    r"[^#]*(?:#(.*))?$"
)
_SPEED = re.compile(r"\b(\d{1,2})x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_LANE_GBPS = {
    "SDR": 2.5, "DDR": 5.0, "QDR": 10.0, "FDR10": 10.0, "FDR": 14.0, "EDR": 25.0, "HDR": 50.0,
    "NDR": 100.0, "XDR": 200.0,
}  # fmt: skip
_REDUCER = "Aggregation Node"
LEFT_OUT = "InfiniBand node that is no server (SHARP, router)"


@dataclass
class _Device:
    kind: str
    guid: str
    description: str
    ports: list[tuple[str, str, str, float | None]] = field(default_factory=list)
    """(port, its GUID, peer, Gbit/s) of each cable."""


def recognises(text: str, _name: str) -> bool:
    """Whether a text, or the name of its file, is of this format."""
    return bool(re.search(r"^(switchguid|caguid)=0x", text, re.MULTILINE))


def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the network that ``ibnetdiscover`` printed."""
    devices = _devices(text, where)
    names = _switch_names(devices)
    parts = Parts(switches=set(names.values()))
    for device in devices:
        if device.kind == "Switch":
            name = names[device.guid]
            parts.cables += [
                Cable(name, names[peer], gbps, name)
                for _, _, peer, gbps in device.ports
                if peer in names
            ]
        elif device.kind == "Ca" and _REDUCER not in device.description:
            parts.nics += list(_nics(device, names))
        else:
            notes.drop(LEFT_OUT)
    return parts


def _devices(text: str, where: str) -> list[_Device]:
    devices: list[_Device] = []
    problems = []
    for number, line in enumerate(text.splitlines(), start=1):
        device, port = _DEVICE.match(line), _PORT.match(line)
        if device:
            devices.append(_Device(device[1], device[2], device[3]))
        elif port and devices:
            port_guid = port[2] or ""
            devices[-1].ports.append((port[1], port_guid, port[3], _gbps(port[5] or "")))
        elif line.startswith(("[", "Switch", "Ca\t", "Ca ", "Rt\t", "Rt ")):
            what = f"no line of ibnetdiscover: {line.strip()[:60]!r}"
            problems.append(Problem(what, f"{where}:{number}"))
    if problems:
        raise UserError(problems[:50])
    return devices


def _gbps(comment: str) -> float | None:
    found = _SPEED.search(comment)
    return int(found[1]) * _LANE_GBPS[found[2]] if found else None


def _switch_names(devices: list[_Device]) -> dict[str, str]:
    """Return a name for each switch; the unit or GUID distinguishes those of one chassis."""
    switches = [one for one in devices if one.kind == "Switch"]
    chosen = {one.guid: plain_name(one.description) or one.guid for one in switches}
    for finer in (_with_unit, _with_guid):
        count = Counter(chosen.values())
        for one in switches:
            if count[chosen[one.guid]] > 1:
                chosen[one.guid] = finer(one)
    return chosen


def _with_unit(device: _Device) -> str:
    _, _, unit = device.description.partition("/")
    return f"{plain_name(device.description)}/{unit}" if unit else _with_guid(device)


def _with_guid(device: _Device) -> str:
    return f"{plain_name(device.description)} {device.guid}"


def _nics(device: _Device, switches: dict[str, str]) -> list[Nic]:
    """Return a NIC for each cabled port of a channel adapter."""
    server, port = _server_and_nic(device)
    found = []
    for number, guid, peer, gbps in device.ports:
        if peer in switches:
            name = port if len(device.ports) == 1 else f"{port}/{number}"
            address = f"0x{(guid or device.guid[2:]).lower().rjust(16, '0')}"
            found.append(Nic(server, name, switches[peer], gbps, address))
    return found


def _server_and_nic(device: _Device) -> tuple[str, str]:
    """Return the names in ``gpu01 mlx5_0``; an adapter without a server's name is its own."""
    words = device.description.replace("'", "").split()
    if len(words) == 2:
        return words[0], words[1]
    return device.guid, ""
