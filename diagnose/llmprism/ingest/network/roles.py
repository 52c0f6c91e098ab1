"""Which devices of LLDP reports are servers.

What a device says of itself decides, then what ``--hosts`` names; a server has cables to switches
only. So devices are taken in order of how surely they are servers, and what such a device is
connected to is a switch:

1. it says that it does not forward, or ``--hosts`` names its NIC (``gpu01-eth0``);
2. it does not say whether it forwards, and ``--hosts`` names it or it reports nothing itself;
3. nothing else is a server, it reports and is not reported, and such devices outnumber what they
   list: LLDP was collected on servers;
4. it says that it forwards, as servers with containers do, and ``--hosts`` names it. This counts
   only if ``--hosts`` names no switch.

Of two that are equally likely, the one with fewer neighbours is the server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from llmprism.ingest.network.hosts import Hosts, address_of, server_names
from llmprism.ingest.network.parts import Neighbour
from llmprism.ingest.notes import Notes

_CERTAIN, _LIKELY, _CLAIMED, _SWITCH = range(4)


def servers_of(neighbours: Sequence[Neighbour], hosts: Hosts, notes: Notes) -> set[str]:
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
