"""Which reported ports of a server are ports of one NIC, and in which plane a switch is.

Two ports are of one NIC if a table of cables says so (``nic`` and ``nic_port``), if their names
differ in the function of one PCI device only (``enp12s0f0np0``, ``enp12s0f1np1``: systemd names
interfaces by bus, slot, function and port), or if they have one address, as those of a bond.
A fabric of planes has switches that are called by them: ``plane0-leaf1``, ``leaf1-plane-b``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from llmprism.network.parts import Nic
from llmprism.part_names import natural

_FUNCTION = re.compile(r"(?P<device>[a-z]+\w*\d)f(?P<function>\d+)(np?\d+)?")
_PLANE = re.compile(r"plane[-_]?([0-9]{1,3}|[a-z])(?![a-z0-9])", re.IGNORECASE)


class Place(NamedTuple):
    """The number of a NIC in its server, and of a port on it; None if the NIC has one address."""

    nic: int
    port: int | None


def devices_of(nics: Sequence[Nic]) -> list[Hashable]:
    """What the ports of one NIC have in common, for each reported port."""
    named = [_device(nic) for nic in nics]
    count: dict[Hashable, set[str]] = defaultdict(set)
    for nic, device in zip(nics, named, strict=True):
        count[device].add(nic.port)
    return [
        device if len(count[device]) > 1 or nic.nic_port is not None else (nic.server, i)
        for i, (nic, device) in enumerate(zip(nics, named, strict=True))
    ]


def _device(nic: Nic) -> Hashable:
    if nic.nic_port is not None:
        return nic.server, "number", nic.number
    found = _FUNCTION.fullmatch(nic.port)
    return nic.server, "name", found["device"] if found else nic.port


def places_of(
    nics: Sequence[Nic], devices: Sequence[Hashable], addresses: Sequence[str]
) -> list[Place]:
    """The place of each reported port in its server; NICs count in the order of their names."""
    with_address: dict[tuple[str, str], Hashable] = {}
    shared: list[Hashable] = []
    for nic, device, address in zip(nics, devices, addresses, strict=True):
        shared.append(with_address.setdefault((nic.server, address), device))
    order = sorted(range(len(nics)), key=lambda i: (nics[i].server, *natural(nics[i].port), i))
    number: dict[Hashable, int] = {}
    found: dict[Hashable, dict[str, int]] = defaultdict(dict)
    count: dict[str, int] = defaultdict(int)
    for i in order:
        nic, device = nics[i], shared[i]
        if device not in number:
            number[device] = count[nic.server] if nic.number is None else nic.number
            count[nic.server] += 1
        port = len(found[device]) if nic.nic_port is None else nic.nic_port
        found[device].setdefault(addresses[i], port)
    return [
        Place(number[device], found[device][address] if len(found[device]) > 1 else None)
        for device, address in zip(shared, addresses, strict=True)
    ]


def planes_of(switches: Iterable[str], leaves: Mapping[Hashable, set[str]]) -> dict[str, int]:
    """Number of the plane of each switch, by its name; empty if the names do not agree with NICs.

    All switches must be called by a plane, and the ports of a NIC be at ``leaves`` of different
    ones.
    """
    label = {name: found[1].lower() for name in switches if (found := _PLANE.search(name))}
    if not label or len(label) < len({*switches}) or len(set(label.values())) == 1:
        return {}
    for of_nic in leaves.values():
        if len({label[leaf] for leaf in of_nic}) < len(of_nic):
            return {}
    order = {one: i for i, one in enumerate(sorted(set(label.values()), key=natural))}
    numbers = {one: int(one) if one.isdecimal() else order[one] for one in order}
    return {name: numbers[one] for name, one in label.items()}
