"""Descriptions of a network, from any source, as the content of ``topology.json``.

One format, one file, and an entry in the list of formats. What several files list is put together,
and the diagnoser's own checks are then applied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from llmprism.io.notes import Notes
from llmprism.io.sources import read_text
from llmprism.io.topology import parse_topology, read_topology
from llmprism.network.content import content
from llmprism.network.hosts import Hosts
from llmprism.network.parts import Content, Parts
from prism_common.errors import Problem, UserError

_LIMIT_BYTES = 1 << 28
_FORMATS = ("cables_csv", "ibnetdiscover", "slurm", "slurm_yaml", "containerlab", "lldp")
"""Modules with ``recognises(text, name)`` and ``read(text, where, notes)``; the first counts."""


def _formats() -> list[Any]:
    return [import_module(f"{__name__}.{name}") for name in _FORMATS]


def read_network(paths: Sequence[Path], hosts: Hosts, notes: Notes) -> Content:
    """Return what descriptions of a network say, checked as ``topology.json`` is.

    Parameters
    ----------
    paths : files, or folders of them; a ``topology.json`` stands alone.
    hosts : the address of each name.

    Raises
    ------
    UserError : if a format is not recognised, if there is no server, or with everything that is
        wrong.
    """
    files = [file for path in paths for file in _files(path)]
    if len(files) == 1 and _is_topology(files[0]):
        read_topology(files[0])
        found: Content = json.loads(read_text(files[0], _LIMIT_BYTES))
        _check_servers(found, Parts(), notes, str(files[0]))
        return found
    parts = Parts()
    problems: list[Problem] = []
    for file in files:
        try:
            parts.add(_read(file, notes))
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(problems)
    result = content(parts, hosts, notes)
    where = ", ".join(map(str, paths))
    parse_topology(result, where)
    _check_servers(result, parts, notes, where)
    return result


def _check_servers(result: Content, parts: Parts, notes: Notes, where: str) -> None:
    """Refuse a network without servers: every record would be set aside."""
    if result["endpoints"]:
        return
    what = f"no server with a cable to one of its {len(result.get('switches', ()))} switches"
    left_out = [f"{why}: {count:,}" for why, count in notes.set_aside.items()]
    what += "".join(f"; {one}" for one in left_out)
    how = "add the servers and their cables"
    if parts.domains:
        how = "topology/block lists no switches; add a file that does, such as one of topology/tree"
    if parts.neighbours:
        how = "every device says that it forwards, or does not tell; name servers with --hosts FILE"
    raise UserError(Problem(what, where, how))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    inside = sorted(one for one in path.rglob("*") if one.is_file() and one.name[0] != ".")
    if not inside:
        raise UserError(Problem("this folder has no files", str(path)))
    yield from inside


def _is_topology(path: Path) -> bool:
    """Return whether a file is JSON with endpoints that no description is recognised in."""
    text = read_text(path, _LIMIT_BYTES)
    if not text.lstrip().startswith("{") or '"endpoints"' not in text:
        return False
    return not any(one.recognises(text, path.name) for one in _formats())


def _read(path: Path, notes: Notes) -> Parts:
    text = read_text(path, _LIMIT_BYTES)
    for description in _formats():
        if description.recognises(text, path.name):
            found: Parts = description.read(text, str(path), notes)
            return found
    how = f"known formats: topology.json (alone), {', '.join(_FORMATS)}; or write a CSV of cables"
    how += ": server, nic, address, switch, gbps (of InfiniBand, ibnetdiscover prints all)"
    raise UserError(Problem("no description of a network is recognised", str(path), how))
