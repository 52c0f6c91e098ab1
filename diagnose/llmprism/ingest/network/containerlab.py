"""A containerlab file (``*.clab.yml``): nodes and links of a network of containers.

A node of a network system's kind is a switch. A node of kind ``linux`` is a server, unless its
image is a router's or its group is that of a switch. Addresses are those that its ``exec``
lines set (``ip addr add ... dev eth1``) or that a link lists. There are no link rates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from llmprism.errors import Problem, UserError
from llmprism.ingest.network.parts import Cable, Nic, Parts
from llmprism.ingest.network.registry import register
from llmprism.ingest.notes import Notes

OUTSIDE = "containerlab link that leaves the lab"
_SERVER_KINDS = {"linux", "ext-container", "generic_vm", "k8s-kind"}
_SERVER_GROUPS = re.compile(r"server|host|client|gpu|compute|worker", re.IGNORECASE)
_SWITCH_GROUPS = re.compile(r"leaf|spine|switch|router|tor|core|fabric", re.IGNORECASE)
_ROUTER_IMAGES = re.compile(r"frr|bird|gobgp|vyos|sonic|quagga|cumulus|openvswitch|crpd|holo")
_SPECIAL = {"host", "mgmt-net", "macvlan"}
_ADDRESS = re.compile(
    r"\bip\b[^&|;]*?\ba(?:ddr(?:ess)?)?\s+(?:add|replace)\s+([0-9a-fA-F.:]+)(?:/\d+)?"
    r"(?:\s+(?:brd|broadcast|peer)\s+\S+)*\s+dev\s+(\S+)"
)


def _recognises(text: str, name: str) -> bool:
    return name.endswith((".clab.yml", ".clab.yaml")) or bool(
        re.search(r"^topology:\s*(#.*)?$", text, re.MULTILINE)
        and re.search(r"^\s+nodes:", text, re.MULTILINE)
    )


@register("containerlab", _recognises)
def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the network of a containerlab file."""
    try:
        content = yaml.safe_load(text)
        topology = content["topology"]
        nodes = {str(name): body or {} for name, body in topology["nodes"].items()}
        described = {name: _whole(topology, body) for name, body in nodes.items()}
        servers = {name for name, body in described.items() if _is_server(body)}
        links = list(_links(topology.get("links") or [], notes))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}" if mark else where
        raise UserError(Problem(f"not valid YAML: {error}".splitlines()[0], place)) from error
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        how = "it needs topology: with nodes: and links: [{endpoints: [a:eth1, b:eth1]}]"
        raise UserError(Problem("not a containerlab file", where, how)) from error
    _check(links, nodes.keys(), where)
    return _parts(described, servers, links, notes)


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
    if _SERVER_GROUPS.search(group) or _SWITCH_GROUPS.search(group):
        return not _SWITCH_GROUPS.search(group)
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
    nodes: dict[str, dict[str, Any]],
    servers: set[str],
    links: list[tuple[_End, _End]],
    notes: Notes,
) -> Parts:
    parts = Parts(switches=set(nodes) - servers)
    for one, other in links:
        if (one[0] in servers) == (other[0] in servers):
            if one[0] in servers:
                notes.drop("containerlab link between two servers")
            else:
                parts.cables.append(Cable(one[0], other[0]))
            continue
        server, switch = (one, other) if one[0] in servers else (other, one)
        address = server[2] or _addresses(nodes[server[0]]).get(server[1], "")
        parts.nics.append(Nic(server[0], server[1], switch[0], None, address))
    return parts


def _addresses(node: dict[str, Any]) -> dict[str, str]:
    """Return the address that a node's ``exec`` lines set on each interface."""
    lines = "\n".join(str(line) for line in node.get("exec") or [])
    found: dict[str, str] = {}
    for address, interface in _ADDRESS.findall(lines):
        found.setdefault(interface, address)
    return found
