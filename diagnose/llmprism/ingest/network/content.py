"""From NICs and cables to what ``topology.json`` holds.

An address comes from the names that the user gave, else from the description; a NIC without
either is called ``SERVER`` or ``SERVER:NIC``, which no flow may have. A switch with NICs is a
leaf, one that is a cable away from a leaf a spine, everything above a core.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from typing import TypeVar

from llmprism.ingest.network.hosts import (
    Hosts,
    address_of,
    is_known,
    nics_by_server,
    server_names,
)
from llmprism.ingest.network.parts import Cable, Content, Nic, Parts
from llmprism.ingest.network.roles import servers_of
from llmprism.ingest.notes import Notes

_TIERS = ("leaf", "spine")
_Report = TypeVar("_Report", Nic, Cable)


def content(parts: Parts, hosts: Hosts, notes: Notes) -> Content:
    """Return the content of ``topology.json``; remark on NICs without an address."""
    parts = _placed(_short_names(parts, hosts), hosts, notes)
    nics = _counted_once(parts.nics, lambda nic: (nic.server, nic.switch))
    nics = _each_nic(nics, hosts)
    cables = _counted_once(parts.cables, lambda one: tuple(sorted((one.a, one.b))))
    addresses = _addresses(nics, hosts, notes)
    endpoints = [
        {"address": address, "server": nic.server, "nic": number, "switch": nic.switch}
        for nic, address, number in zip(nics, addresses, _numbers(nics), strict=True)
    ]
    links = [
        {"a": address, "b": nic.switch, "gbps": nic.gbps}
        for nic, address in zip(nics, addresses, strict=True)
    ]
    links += [{"a": one.a, "b": one.b, "gbps": one.gbps} for one in cables]
    names = parts.switches | {nic.switch for nic in nics} | {x for one in cables for x in one[:2]}
    tiers = _tiers(names, {nic.switch for nic in nics}, cables)
    switches = [{"name": name, "tier": tiers[name]} for name in sorted(names)]
    return {"endpoints": endpoints, "switches": switches, "links": links}


def _short_names(parts: Parts, hosts: Hosts) -> Parts:
    """Return the parts with one name a device: ``leaf1.example.com`` is ``leaf1`` if both occur."""
    names = parts.devices
    first = {name: name.split(".", 1)[0] for name in names if name not in hosts}
    names |= server_names(hosts)
    return parts.renamed({name: short for name, short in first.items() if short in names})


def _placed(parts: Parts, hosts: Hosts, notes: Notes) -> Parts:
    """Return the parts with a NIC or a cable for each reported neighbour."""
    servers = servers_of(parts.neighbours, hosts, notes)
    found = Parts(list(parts.nics), list(parts.cables), set(parts.switches))
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


def _addresses(nics: list[Nic], hosts: Hosts, notes: Notes) -> list[str]:
    """Return the address of each NIC, or a name where none is known."""
    per_server = Counter(nic.server for nic in nics)
    given = Counter(nic.address for nic in nics)
    result = []
    unknown = 0
    for nic in nics:
        is_only_nic = per_server[nic.server] == 1
        own = nic.address if given[nic.address] == 1 and is_known(nic.address) else ""
        known = address_of(nic.server, nic.port, is_only_nic, hosts) or own
        unknown += not known
        result.append(known or _name(nic, is_only_nic))
    if unknown:
        notes.remark(
            f"{unknown:,} of {len(nics):,} NICs have no address in the description of the "
            "network; topology.json calls them by their server; --hosts FILE gives addresses"
        )
    return _distinct(result)


def _name(nic: Nic, is_only_nic: bool) -> str:
    return nic.server if is_only_nic else f"{nic.server}:{nic.port or nic.switch}"


def _distinct(names: list[str]) -> list[str]:
    """Return the names, those that were there before with a number."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


def _numbers(nics: list[Nic]) -> list[int]:
    """Return the number of each NIC in its server: given, or in order of their names."""
    order = sorted(range(len(nics)), key=lambda i: (nics[i].server, *_natural(nics[i].port), i))
    count: Counter[str] = Counter()
    numbers = [0] * len(nics)
    for i in order:
        given = nics[i].number
        numbers[i] = count[nics[i].server] if given is None else given
        count[nics[i].server] += 1
    return numbers


def _natural(name: str) -> tuple[int, str]:
    """Return a key that puts ``eth2`` before ``eth10``."""
    return len(name), name


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
