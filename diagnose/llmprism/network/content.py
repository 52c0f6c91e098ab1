"""From NICs and cables to what ``topology.json`` holds.

An address comes from the names that the user gave, else from the description; a NIC without
either is called ``SERVER`` or ``SERVER:NIC``, which no flow may have. A switch with NICs is a
leaf, one that is a cable away from a leaf a spine, everything above a core.

Of LLDP reports, what a device says of itself decides, then what ``--hosts`` names. A server has
cables to switches only. So devices are taken in order of how surely they are servers, and what such
a device is connected to is a switch:

1. it says that it does not forward, or ``--hosts`` names its NIC (``gpu01-eth0``);
2. it does not say whether it forwards, and ``--hosts`` names it or it reports nothing itself;
3. nothing else is a server, it reports and is not reported, and such devices outnumber what they
   list: LLDP was collected on servers;
4. it says that it forwards, as servers with containers do, and ``--hosts`` names it. This counts
   only if ``--hosts`` names no switch.

Of two that are equally likely, the one with fewer neighbours is the server.

Flows alone show who sends, and on which switches a path starts and ends (:func:`infer`). Servers,
rates and cables between switches that no path names stay unknown.

Two ports are of one NIC if a table of cables says so (``nic`` and ``nic_port``), if their names
differ in the function of one PCI device only (``enp12s0f0np0``, ``enp12s0f1np1``: systemd names
interfaces by bus, slot, function and port), or if they have one address, as those of a bond.
A fabric of planes has switches that are called by them: ``plane0-leaf1``, ``leaf1-plane-b``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeVar

from llmprism.io.notes import Notes
from llmprism.network.hosts import Hosts, address_of, is_known, nics_by_server, server_names
from llmprism.network.parts import Cable, Content, Neighbour, Nic, Parts
from llmprism.part_names import natural

_TIERS = ("leaf", "spine")
_Report = TypeVar("_Report", Nic, Cable)


def content(parts: Parts, hosts: Hosts, notes: Notes) -> Content:
    """Return the content of ``topology.json``; remark on NICs without an address."""
    parts = _placed(_short_names(parts, hosts), hosts, notes)
    nics = _counted_once(parts.nics, lambda nic: (nic.server, nic.switch))
    nics = _each_nic(nics, hosts)
    cables = _counted_once(parts.cables, lambda one: tuple(sorted((one.a, one.b))))
    devices = devices_of(nics)
    addresses = _addresses(nics, devices, hosts, notes)
    endpoints = _endpoints(nics, addresses, places_of(nics, devices, addresses), parts.domains)
    links = [
        {"a": address, "b": nic.switch, "gbps": nic.gbps}
        for nic, address in zip(nics, addresses, strict=True)
    ]
    links += [{"a": one.a, "b": one.b, "gbps": one.gbps} for one in cables]
    names = parts.switches | {nic.switch for nic in nics} | {x for one in cables for x in one[:2]}
    tiers = _tiers(names, {nic.switch for nic in nics}, cables)
    leaves: dict[Hashable, set[str]] = defaultdict(set)
    for nic, device in zip(nics, devices, strict=True):
        leaves[device].add(nic.switch)
    planes = planes_of(names, leaves)
    switches = [
        {"name": name, "tier": tiers[name]} | ({"plane": planes[name]} if planes else {})
        for name in sorted(names)
    ]
    return {"endpoints": endpoints, "switches": switches, "links": links}


def _endpoints(
    nics: list[Nic], addresses: list[str], places: list[Place], domains: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return one endpoint for each address: the first of its ports, if it has several."""
    found: dict[str, dict[str, Any]] = {}
    for nic, address, place in zip(nics, addresses, places, strict=True):
        end = {"address": address, "server": nic.server, "nic": place.nic, "switch": nic.switch}
        if place.port is not None:
            end["port"] = place.port
        if nic.server in domains:
            end["domain"] = domains[nic.server]
        found.setdefault(address, end)
    return list(found.values())


def _short_names(parts: Parts, hosts: Hosts) -> Parts:
    """Return the parts with one name a device: ``leaf1.example.com`` is ``leaf1`` if both occur."""
    names = parts.devices
    first = {name: name.split(".", 1)[0] for name in names if name not in hosts}
    names |= server_names(hosts)
    return parts.renamed({name: short for name, short in first.items() if short in names})


def _placed(parts: Parts, hosts: Hosts, notes: Notes) -> Parts:
    """Return the parts with a NIC or a cable for each reported neighbour."""
    servers = _servers_of(parts.neighbours, hosts, notes)
    found = Parts(list(parts.nics), list(parts.cables), set(parts.switches))
    found.domains = parts.domains
    for one in parts.neighbours:
        sides = one.reporter in servers, one.name in servers
        if sides == (False, True):
            nic = Nic(one.name, one.port, one.reporter, one.gbps, one.address, one.reporter)
            found.nics.append(nic)
        elif sides == (True, False):
            nic = Nic(one.reporter, one.reporter_port, one.name, one.gbps, "", one.reporter)
            found.nics.append(nic)
        elif sides == (False, False):
            found.cables.append(Cable(one.reporter, one.name, one.gbps, one.reporter))
        else:
            notes.drop("LLDP neighbours that are both servers")
    found.switches |= {one.reporter for one in parts.neighbours} - servers
    return found


def _each_nic(nics: list[Nic], hosts: Hosts) -> list[Nic]:
    """Return a NIC for each that ``hosts`` names of a server whose description has one unnamed.

    Slurm knows servers, not their NICs.
    """
    per_server = Counter(nic.server for nic in nics)
    bare = {nic.server for nic in nics if not nic.port and not nic.address}
    named = nics_by_server(hosts, {server for server in bare if per_server[server] == 1})
    found: list[Nic] = []
    for nic in nics:
        ports = enumerate(named.get(nic.server, {}).items())
        several = [
            nic._replace(port=port, address=address, number=number)
            for number, (port, address) in ports
        ]
        found += several or [nic]
    return found


def _counted_once(reports: Iterable[_Report], ends: Callable[[_Report], Hashable]) -> list[_Report]:
    """Return, for each two devices, the reports of the one that reported more cables."""
    groups: dict[Hashable, dict[str, list[_Report]]] = defaultdict(lambda: defaultdict(list))
    for report in reports:
        groups[ends(report)][report.reporter].append(report)
    most = (max(sides.values(), key=len) for sides in groups.values())
    return list(chain.from_iterable(most))


def _addresses(
    nics: list[Nic], devices: Sequence[Hashable], hosts: Hosts, notes: Notes
) -> list[str]:
    """Return the address of each port, or a name where none is known; those of a bond have one."""
    alone = Counter(server for server, _ in {*zip((n.server for n in nics), devices, strict=True)})
    owners: dict[str, set[Hashable]] = defaultdict(set)
    for nic, device in zip(nics, devices, strict=True):
        owners[nic.address].add(nic.server if not nic.reporter else (nic.server, device))
    result = []
    unknown = 0
    for nic in nics:
        is_only_nic = alone[nic.server] == 1
        own = nic.address if len(owners[nic.address]) == 1 and is_known(nic.address) else ""
        known = address_of(nic.server, nic.port, is_only_nic, hosts) or own
        unknown += not known
        result.append(known or _name(nic, is_only_nic))
    if unknown:
        notes.remark(
            f"{unknown:,} of {len(nics):,} NICs have no address in the description of the "
            "network; topology.json calls them by their server; --hosts FILE gives addresses"
        )
    return _distinct(nics, result)


def _name(nic: Nic, is_only_nic: bool) -> str:
    return nic.server if is_only_nic else f"{nic.server}:{nic.port or nic.switch}"


def _distinct(nics: list[Nic], names: list[str]) -> list[str]:
    """Return the names; one that another server has as well gets a number."""
    seen: dict[str, list[str]] = defaultdict(list)
    result = []
    for nic, name in zip(nics, names, strict=True):
        if nic.server not in seen[name]:
            seen[name].append(nic.server)
        place = seen[name].index(nic.server) + 1
        result.append(name if place == 1 else f"{name}#{place}")
    return result


def _tiers(names: set[str], leaves: set[str], cables: list[Cable]) -> dict[str, str]:
    """Return the tier of each switch by its distance from the leaves."""
    near: dict[str, set[str]] = defaultdict(set)
    for one in cables:
        near[one.a].add(one.b)
        near[one.b].add(one.a)
    distance = dict.fromkeys(leaves, 0)
    front = sorted(leaves)
    while front:
        after = sorted({b for a in front for b in near[a]} - distance.keys())
        distance |= dict.fromkeys(after, distance[front[0]] + 1)
        front = after
    tiers = dict(enumerate(_TIERS))
    return {name: tiers.get(distance.get(name, 1), "core") for name in names}


_CERTAIN, _LIKELY, _CLAIMED, _SWITCH = range(4)


def _servers_of(neighbours: Sequence[Neighbour], hosts: Hosts, notes: Notes) -> set[str]:
    """Return the devices that are servers; remark if only the places of the reports tell."""
    links: dict[str, set[str]] = defaultdict(set)
    for one in neighbours:
        links[one.reporter].add(one.name)
        links[one.name].add(one.reporter)
    ranks = _ranks(neighbours, hosts)
    order = sorted(ranks, key=lambda name: (ranks[name], len(links[name]), name))
    named = server_names(hosts)
    servers: set[str] = set()
    switches: set[str] = set()
    for device in order:
        if ranks[device] >= _CLAIMED and not servers:
            servers |= _where_collected(neighbours, notes)
            switches |= {near for one in servers for near in links[one]}
        if ranks[device] == _SWITCH or (ranks[device] == _CLAIMED and switches & named):
            break
        if ranks[device] == _CERTAIN or device not in switches:
            servers.add(device)
            switches |= links[device] - servers
    return servers


def _ranks(neighbours: Sequence[Neighbour], hosts: Hosts) -> dict[str, int]:
    """Return how surely each device is a server."""
    named = server_names(hosts)
    reporters = {one.reporter for one in neighbours}
    forwards = {one.name: one.forwards for one in neighbours if one.forwards is not None}
    ports = {(one.name, one.port) for one in neighbours}
    ports |= {(one.reporter, one.reporter_port) for one in neighbours}
    with_nic = {name for name, port in ports if address_of(name, port, False, hosts)}

    def rank(device: str) -> int:
        forwarding = forwards.get(device)
        if forwarding is False or device in with_nic:
            return _CERTAIN
        if forwarding is None and (device in named or device not in reporters):
            return _LIKELY
        return _CLAIMED if device in named else _SWITCH

    return {device: rank(device) for one in neighbours for device in (one.reporter, one.name)}


def _where_collected(neighbours: Sequence[Neighbour], notes: Notes) -> set[str]:
    listed = {one.name for one in neighbours}
    unlisted = {one.reporter for one in neighbours} - listed
    if len(unlisted) <= len(listed):
        return set()
    notes.remark(
        f"{len(unlisted):,} devices list the same {len(listed):,} neighbours, and none lists them: "
        "they are taken for servers"
    )
    return unlisted


_UNKNOWN_HOP = "?"


def infer(
    pairs: Mapping[tuple[str, str], int], paths: Mapping[tuple[str, str, str], int]
) -> Content:
    """Return a network in which every address is a server of its own.

    Parameters
    ----------
    pairs : records by (source, destination).
    paths : records by (path, source, destination).
    """
    leaves: dict[str, Counter[str]] = {}
    cables: set[tuple[str, str]] = set()
    names: set[str] = set()
    for (path, source, target), count in paths.items():
        hops = path.split("|")
        for address, leaf in ((source, hops[0]), (target, hops[-1])):
            if leaf != _UNKNOWN_HOP and len(hops) > 1:
                leaves.setdefault(address, Counter())[leaf] += count
        names |= set(hops) - {_UNKNOWN_HOP}
        for one, other in pairwise(hops):
            if _UNKNOWN_HOP not in (one, other):
                cables.add((min(one, other), max(one, other)))
    addresses = sorted({address for pair in pairs for address in pair})
    homes = {one: leaves[one].most_common(1)[0][0] for one in addresses if one in leaves}
    endpoints = [{"address": one, "server": one, "switch": homes.get(one)} for one in addresses]
    used = set(homes.values())
    tiers = [{"name": one, "tier": "leaf" if one in used else "spine"} for one in sorted(names)]
    links: list[dict[str, Any]] = [
        {"a": one, "b": home, "gbps": None} for one, home in homes.items()
    ]
    links += [{"a": one, "b": other, "gbps": None} for one, other in sorted(cables)]
    return {"endpoints": endpoints, "switches": tiers, "links": links}


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
