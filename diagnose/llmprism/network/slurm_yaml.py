"""Slurm's ``topology.yaml`` (25.05 and later): a list of topologies, of which a tree is read.

Each topology has a name and one type. Only a ``tree`` lists switches (``switch``, ``children``,
``nodes``). Of several trees, the cluster's default counts, or else the first. Blocks of a ``block``
are taken for NVLink domains. As in ``topology.conf``, servers are named and NICs are not.

Reference: topology.yaml(5).
"""

from __future__ import annotations

import re
from typing import Any

from llmprism.io.notes import Notes
from llmprism.network.documents import load_yaml
from llmprism.network.parts import Parts
from llmprism.network.slurm import BLOCKS, add_block, add_switch
from prism_common.errors import Problem, UserError

_TYPES = ("tree", "block", "ring", "torus3d", "flat")


def recognises(text: str, _name: str) -> bool:
    """Whether a text, or the name of its file, is of this format."""
    return bool(
        re.search(r"^[ \t]*-?[ \t]*topology:[ \t]*\S", text, re.MULTILINE)
        and re.search(rf"^[ \t]*-?[ \t]*({'|'.join(_TYPES)}):", text, re.MULTILINE)
    )


def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the network of a ``topology.yaml``."""
    listed = load_yaml(text, where)
    topologies = (
        [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    )
    trees = [one for one in topologies if "tree" in one]
    blocks = [one["block"] for one in topologies if isinstance(one.get("block"), dict)]
    domains = _domains(blocks, where, notes)
    if not trees and domains.domains:
        return domains
    if not trees:
        raise UserError(_without_tree(topologies, where))
    chosen = next((one for one in trees if one.get("cluster_default") is True), trees[0])
    others = [_title(one) for one in topologies if one is not chosen and "block" not in one]
    if others:
        notes.remark(f"{where}: {_title(chosen)} is read, {', '.join(others)} not")
    tree = _tree(chosen["tree"], where)
    tree.add(domains)
    return tree


def _domains(blocks: list[dict[str, Any]], where: str, notes: Notes) -> Parts:
    """Return the servers of all blocks."""
    parts = Parts()
    listed = [one for block in blocks for one in block.get("blocks") or [] if isinstance(one, dict)]
    for one in listed:
        try:
            add_block(parts, str(one.get("block", "")), _names(one, "nodes"))
        except ValueError as error:
            raise UserError(Problem(str(error), f"{where}: block {one.get('block')}")) from error
    if parts.domains:
        notes.remark(f"{where}: {BLOCKS}")
    return parts


def _title(topology: dict[str, Any]) -> str:
    kind = next((one for one in _TYPES if one in topology), "unknown type")
    return f"topology {str(topology.get('topology'))[:64]!r} ({kind})"


def _without_tree(topologies: list[dict[str, Any]], where: str) -> list[Problem]:
    how = "give the network in another form, or a topology of type tree"
    if not topologies:
        return [Problem("a list of topologies is expected", where, how)]
    return [Problem(f"{_title(one)} lists no switches", where, how) for one in topologies]


def _tree(tree: Any, where: str) -> Parts:
    parts = Parts()
    problems = []
    switches = tree.get("switches") if isinstance(tree, dict) else None
    for number, one in enumerate(switches if isinstance(switches, list) else [], start=1):
        try:
            if not isinstance(one, dict) or not one.get("switch"):
                raise ValueError("it needs a name: switch")
            add_switch(parts, *(_names(one, key) for key in ("switch", "nodes", "children")))
        except ValueError as error:
            problems.append(Problem(str(error), f"{where}: switch {number} of the tree"))
    if problems:
        raise UserError(problems[:50])
    return parts


def _names(switch: dict[str, Any], key: str) -> str:
    """Return a list of names as Slurm writes it, also where YAML has a list of them."""
    value = switch.get(key)
    values = value if isinstance(value, list) else [value]
    if any(isinstance(one, (dict, list)) for one in values):
        raise ValueError(f"{key} is no list of names")
    return ",".join(str(one) for one in values if one is not None)
