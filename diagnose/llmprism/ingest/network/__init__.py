"""Readers of network descriptions, by name: each returns what ``topology.json`` holds.

One format, one file, one registration, as for telemetry. A reader takes the text of a file and
returns the content of a ``topology.json``; the diagnoser's own checks are then applied.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from llmprism.errors import Problem, UserError
from llmprism.io.sources import read_text
from llmprism.io.topology import parse_topology, read_topology

Content = dict[str, list[dict[str, Any]]]
"""What ``topology.json`` holds: ``endpoints``, ``switches``, ``links``."""
_LIMIT_BYTES = 1 << 28
_OWN = ("cables_csv",)


@dataclass(frozen=True)
class Description:
    """A format of network descriptions, and how to recognise and read it."""

    name: str
    recognises: Callable[[str, str], bool]
    read: Callable[[str, str], Content]


_known: dict[str, Description] = {}


def register(
    name: str, recognises: Callable[[str, str], bool]
) -> Callable[[Callable[[str, str], Content]], Callable[[str, str], Content]]:
    """Make a function known as the reader of the descriptions ``name``."""

    def keep(read: Callable[[str, str], Content]) -> Callable[[str, str], Content]:
        _known[name] = Description(name, recognises, read)
        return read

    return keep


def read_network(path: Path) -> Content:
    """Return what a description of a network says, checked as ``topology.json`` is.

    Raises
    ------
    UserError : if its format is not recognised, or with everything that is wrong in it.
    """
    for module in _OWN:
        import_module(f"{__name__}.{module}")
    text = read_text(path, _LIMIT_BYTES)
    if text.lstrip().startswith("{"):
        return _as_it_is(path)
    for description in _known.values():
        if description.recognises(text, path.name):
            content = description.read(text, str(path))
            parse_topology(content, str(path))
            return content
    how = f"known formats: topology.json, {', '.join(_known)}"
    raise UserError(Problem("no description of a network is recognised", str(path), how))


def _as_it_is(path: Path) -> Content:
    """Return a ``topology.json`` after the diagnoser's checks."""
    read_topology(path)
    content: Content = json.loads(read_text(path, _LIMIT_BYTES))
    return content


def assemble(
    endpoints: list[dict[str, Any]], links: list[dict[str, Any]], switches: set[str]
) -> Content:
    """Return the content; a switch with endpoints is a leaf, others are spines."""
    leaves = {one["switch"] for one in endpoints if one.get("switch")}
    tiers = [
        {"name": name, "tier": "leaf" if name in leaves else "spine"}
        for name in sorted(switches | leaves)
    ]
    return {"endpoints": endpoints, "switches": tiers, "links": links}
