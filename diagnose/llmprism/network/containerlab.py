"""A containerlab file (``*.clab.yml``): nodes and links of a network of containers.

A node of a network system's kind is a switch. A node of kind ``linux`` is a server, unless its
image is a router's or its group is that of a switch. Addresses are those that its ``exec``
lines set (``ip addr add``, its words in any order) or that a link lists. There are no link rates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from llmprism.io.notes import Notes
from llmprism.network.documents import load_yaml
from llmprism.network.parts import SERVERS, SWITCHES, Cable, Nic, Parts
from prism_common.errors import Problem, UserError

OUTSIDE = "containerlab link that leaves the lab"
_SERVER_KINDS = {"linux", "ext-container", "generic_vm", "k8s-kind"}
_ROUTER_IMAGES = re.compile(r"frr|bird|gobgp|vyos|sonic|quagga|cumulus|openvswitch|crpd|holo")
_SPECIAL = {"host", "mgmt-net", "macvlan"}
_COMMANDS = re.compile(r"[&|;\n\"']+")
"""Between the commands of a shell."""
_SETTING = {"add", "a", "change", "chg", "replace"}
_WITH_VALUE = {"dev", "brd", "broadcast", "anycast", "label", "scope", "metric", "proto"}
_WITH_VALUE |= {"valid_lft", "preferred_lft", "peer", "remote", "local"}


def recognises(text: str, name: str) -> bool:
    """Whether a text, or the name of its file, is of this format."""
    return name.endswith((".clab.yml", ".clab.yaml")) or bool(
        re.search(r"^topology:\s*(#.*)?$", text, re.MULTILINE)
        and re.search(r"^[ \t]+nodes:", text, re.MULTILINE)
    )


def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the network of a containerlab file."""
    content = load_yaml(text, where)
    try:
        topology = content["topology"]
        nodes = {str(name): body or {} for name, body in topology["nodes"].items()}
        described = {name: _whole(topology, body) for name, body in nodes.items()}
        servers = {name for name, body in described.items() if _is_server(body)}
        links = list(_links(topology.get("links") or [], notes))
        commands = {name: _addresses(described[name]) for name in servers}
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        how = "it needs topology: with nodes: and links: [{endpoints: [a:eth1, b:eth1]}]"
        raise UserError(Problem("not a containerlab file", where, how)) from error
    _check(links, nodes.keys(), where)
    return _parts(set(nodes) - servers, commands, links, notes)


_End = tuple[str, str, str]
"""Node, interface, and address (empty: unknown)."""


def _whole(topology: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Return a node with what its group, its kind and the defaults say."""
    defaults = topology.get("defaults") or {}
    group = (topology.get("groups") or {}).get(node.get("group")) or {}
    kind_name = node.get("kind") or group.get("kind") or defaults.get("kind") or "linux"
    kind = (topology.get("kinds") or {}).get(kind_name) or {}
    return {**defaults, **kind, **group, **node, "kind": str(kind_name)}


def _is_server(node: dict[str, Any]) -> bool:
    group = str(node.get("group", ""))
    if SERVERS.search(group) or SWITCHES.search(group):
        return not SWITCHES.search(group)
    if node["kind"] not in _SERVER_KINDS:
        return False
    return not _ROUTER_IMAGES.search(str(node.get("image", "")))


def _links(links: list[Any], notes: Notes) -> Iterator[tuple[_End, _End]]:
    for link in links:
        ends = [_end(one, link, i) for i, one in enumerate(link.get("endpoints") or [])]
        if len(ends) != 2 or any(name in _SPECIAL for name, _, _ in ends):
            notes.drop(OUTSIDE)
        else:
            yield ends[0], ends[1]


def _end(end: Any, link: dict[str, Any], place: int) -> _End:
    """Return an end of a link, written as ``node:interface`` or as an object."""
    listed = [str(one) for key in ("ipv4", "ipv6") for one in (link.get(key) or [])[place:][:1]]
    if isinstance(end, dict):
        own = [str(end[key]) for key in ("ipv4", "ipv6") if end.get(key)]
        name, port, listed = str(end["node"]), str(end.get("interface", "")), own + listed
    else:
        name, _, port = str(end).partition(":")
    return name, port, next((one.split("/")[0] for one in listed if one), "")


def _check(links: list[tuple[_End, _End]], nodes: Any, where: str) -> None:
    unknown = sorted({end[0] for link in links for end in link} - set(nodes))
    if unknown:
        raise UserError(
            [Problem(f"a link names node {one!r}, which is not listed", where) for one in unknown]
        )


def _parts(
    switches: set[str],
    servers: dict[str, dict[str, str]],
    links: list[tuple[_End, _End]],
    notes: Notes,
) -> Parts:
    """Return the parts; ``servers`` has the addresses of each by interface."""
    parts = Parts(switches=switches)
    for one, other in links:
        if (one[0] in servers) == (other[0] in servers):
            if one[0] in servers:
                notes.drop("containerlab link between two servers")
            else:
                parts.cables.append(Cable(one[0], other[0]))
            continue
        server, switch = (one, other) if one[0] in servers else (other, one)
        address = server[2] or servers[server[0]].get(server[1], "")
        parts.nics.append(Nic(server[0], server[1], switch[0], None, address))
    return parts


def _addresses(node: dict[str, Any]) -> dict[str, str]:
    """Return the address that a node's ``exec`` lines set on each interface."""
    found: dict[str, str] = {}
    for line in node.get("exec") or []:
        for command in _COMMANDS.split(str(line)):
            address, interface = _assigned(command.split())
            if address and interface:
                found.setdefault(interface, address)
    return found


def _assigned(words: list[str]) -> tuple[str, str]:
    """Return address and interface that a command of ``ip`` or ``ifconfig`` sets; else nothing.

    >>> _assigned("ip addr add dev eth1 192.0.2.1/24".split())
    ('192.0.2.1', 'eth1')
    >>> _assigned("ip -4 a replace local 192.0.2.1/24 brd + dev eth1".split())
    ('192.0.2.1', 'eth1')
    """
    names = [word.rsplit("/", 1)[-1] for word in words]
    if "ifconfig" in names:
        interface, address = (*words[names.index("ifconfig") + 1 :], "", "")[:2]
        return (address.split("/")[0] if address[:1].isdigit() else ""), interface
    if "ip" not in names:
        return "", ""
    rest = [word for word in words[names.index("ip") + 1 :] if word[0] != "-"]
    if len(rest) < 2 or not "address".startswith(rest[0]) or rest[1] not in _SETTING:
        return "", ""
    given: dict[str, str] = {}
    values = iter(rest[2:])
    for word in values:
        key = word if word in _WITH_VALUE else "local"
        given.setdefault(key, next(values, "") if word in _WITH_VALUE else word)
    return given.get("local", "").split("/")[0], given.get("dev", "")
