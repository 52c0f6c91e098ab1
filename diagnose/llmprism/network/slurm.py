"""Slurm's ``topology.conf``: which nodes are on which switch, or share an NVLink domain.

A *block* of the plugin topology/block is taken for such a domain, which the plugin was made for. It
lists no switches, so another file must. The plugin topology/tree lists switches. It names nodes and
no NICs: ``--hosts`` gives their addresses, of each NIC (``SERVER-NIC``) where a server has several.
``LinkSpeed`` has no unit there, so link rates stay unknown. ``scontrol show topology`` prints the
same with a ``Level``, and lists the nodes below an upper switch again: a node is at its lowest one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from llmprism.io.notes import Notes
from llmprism.network.parts import Cable, Nic, Parts
from prism_common.errors import Problem, UserError

_KEY = re.compile(r"(\w+)[ \t]*=[ \t]*([^\s=]+)(?!\S*=)")
_MOST_NAMES = 1 << 20
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
BLOCKS = "blocks of Slurm (topology/block) are taken for NVLink domains"


def recognises(text: str, _name: str) -> bool:
    """Whether a text, or the name of its file, is of this format."""
    return bool(
        re.search(r"^[ \t]*(SwitchName|BlockName)[ \t]*=", text, re.MULTILINE | re.IGNORECASE)
    )


def read(text: str, where: str, notes: Notes) -> Parts:
    """Return the network of a ``topology.conf``."""
    parts = Parts()
    problems = []
    for number, line in _lines(text):
        keys = {key.lower(): value for key, value in _KEY.findall(line)}
        if "linkspeed" in keys:
            notes.remark(f"{where}: LinkSpeed has no unit; link rates are unknown")
        try:
            if "blockname" in keys:
                add_block(parts, keys["blockname"], keys.get("nodes", ""))
                notes.remark(f"{where}: {BLOCKS}")
            if "switchname" in keys:
                is_upper = "level" in keys and bool(keys.get("switches"))
                nodes = "" if is_upper else keys.get("nodes", "")
                add_switch(parts, keys["switchname"], nodes, keys.get("switches", ""))
        except ValueError as error:
            problems.append(Problem(str(error), f"{where}:{number}"))
    if problems:
        raise UserError(problems[:50])
    return parts


def add_block(parts: Parts, name: str, nodes: str) -> None:
    """Add the servers of a block.

    Raises
    ------
    ValueError : if they are no list of names.
    """
    parts.domains |= dict.fromkeys(expanded(nodes), name)


def add_switch(parts: Parts, names: str, nodes: str, below: str) -> None:
    """Add switches with their nodes and the switches below them; each is a list of Slurm's.

    Raises
    ------
    ValueError : if one of them is no such list, or stands for too many names.
    """
    switches, servers, children = expanded(names), expanded(nodes), expanded(below)
    cables = len(switches) * (len(servers) + len(children))
    if len(parts.nics) + len(parts.cables) + cables > _MOST_NAMES:
        raise ValueError(f"more than {_MOST_NAMES:,} cables")
    for switch in switches:
        parts.switches.add(switch)
        parts.nics += [Nic(server, "", switch) for server in servers]
        parts.cables += [Cable(one, switch) for one in children]


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line; one that ends in a backslash goes on in the next."""
    held, first = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0].rstrip()
        first = first if held else number
        held += line.removesuffix("\\")
        if not line.endswith("\\"):
            if held.strip():
                yield first, held
            held = ""
    if held.strip():
        yield first, held


def expanded(text: str) -> list[str]:
    """Return the names that a list of Slurm stands for.

    >>> expanded("gpu[01-02,5],login")
    ['gpu01', 'gpu02', 'gpu5', 'login']
    """
    names: list[str] = []
    for part in filter(None, re.split(r",(?![^\[]*\])", text)):
        pieces = re.split(r"\[([^\]]*)\]", part)
        choices = [_numbers(one, part) if i % 2 else [one] for i, one in enumerate(pieces)]
        if any(mark in one for one in pieces[::2] for mark in "[]"):
            raise ValueError(f"{part!r} is no list of names")
        count = 1
        for choice in choices:
            count *= max(len(choice), 1)
        if count + len(names) > _MOST_NAMES:
            raise ValueError(f"{part!r} stands for too many names")
        names += ["".join(choice) for choice in product(*choices)]
    return names


def _numbers(text: str, part: str) -> list[str]:
    """Return the numbers of a bracket, with the zeros that its bounds start with."""
    found: list[str] = []
    for one in text.split(","):
        ends = _RANGE.fullmatch(one.strip())
        if not ends:
            raise ValueError(f"{part!r} is no list of names")
        first, last = ends[1], ends[2] or ends[1]
        if int(last) - int(first) >= _MOST_NAMES:
            raise ValueError(f"{part!r} stands for too many names")
        found += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return found
