"""LLDP neighbours as switches print them: JSON of EOS, Junos, NX-OS, napalm and OpenConfig.

One file a device, called by the device's name, as for :mod:`llmprism.ingest.network.lldp`. The
commands are ``show lldp neighbors | json`` (EOS, NX-OS; also with ``detail``, which has the
capabilities) and ``show lldp neighbors | display json`` (Junos). napalm has the same for all of
them (``get_lldp_neighbors`` and ``get_lldp_neighbors_detail``), and gNMI the model
``openconfig-lldp``. What a program puts around them, such as the answer of an API, is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from llmprism.ingest.network.lldp import address_of, device_of, texts_of, without_names
from llmprism.ingest.network.parts import Neighbour, Parts
from llmprism.ingest.network.registry import register
from llmprism.ingest.notes import Notes
from prism_common.errors import Problem, UserError
from prism_common.untrusted import OutsideError, parsed

_FORWARDING = {"bridge", "router", "mac_bridge"}
_LETTERS = {"B", "R"}
_DEEPEST = 12  # objects around the neighbours

Read = Callable[[Any, str], Iterator[Neighbour]]


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
    for interface in _listed(found):
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


_KINDS: dict[str, Read] = {
    "lldpNeighbors": _eos,
    "lldp-neighbor-information": _junos,
    "ROW_nbor": _nxos,
    "ROW_nbor_detail": _nxos,
}
_NAPALM = ({"hostname", "port"}, {"remote_system_name", "remote_port"})


def _recognises(text: str, _name: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    if any(f'"{key}"' in text for key in _KINDS) or '"openconfig-lldp:' in text:
        return True
    return any(all(f'"{key}"' in text for key in keys) for keys in _NAPALM)


@register("lldp_switches", _recognises)
def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the neighbours of one device."""
    device = device_of(where)
    try:
        found = list(_neighbours(parsed(text), device))
    except OutsideError as error:
        raise UserError(Problem(str(error), where)) from error
    except (TypeError, KeyError, AttributeError, IndexError, ValueError) as error:
        how = "print it with: show lldp neighbors | json (Junos: | display json)"
        what = "not the LLDP neighbours of EOS, Junos, NX-OS, napalm or OpenConfig"
        raise UserError(Problem(what, where, how)) from error
    return Parts(neighbours=without_names([_plain(one) for one in found], notes))


def _plain(one: Neighbour) -> Neighbour:
    if not all(isinstance(text, str) for text in one[:5]):
        raise TypeError(json.dumps(one[:5], default=str)[:100])
    return one


def _neighbours(content: Any, device: str) -> Iterator[Neighbour]:
    for key, read_kind in _KINDS.items():
        if (found := _under(content, key)) is not None:
            yield from read_kind(found, device)
            return
    if (found := _under(content, "openconfig-lldp:lldp", "openconfig-lldp:interfaces")) is not None:
        interfaces = found.get("interfaces", found)
        yield from _openconfig(interfaces.get("interface", []), device)
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


def _listed(node: Any) -> list[Any]:
    return node if isinstance(node, list) else [node]
