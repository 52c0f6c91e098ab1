"""Files of Chakra execution traces: nodes as protobuf messages or as JSON.

A trace is one file a rank, ``NAME.RANK.et``: a message of global metadata, then one message a node,
each after its length as a varint; the file may be gzipped. JSON (``NAME.RANK.json``) is read by
:mod:`prism_sim.importers.chakra_json`, without any extra library.

Reference: https://github.com/mlcommons/chakra, ``schema/protobuf/et_def.proto``.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prism_common.errors import Problem, UserError
from prism_sim.importers.base import TraceProblems, contents
from prism_sim.importers.chakra_json import from_json
from prism_sim.importers.chakra_nodes import NODE_TYPES, Node
from prism_sim.importers.chakra_schema import node_messages

_RANK_FILE = re.compile(r"(?P<name>.*)\.(?P<rank>\d{1,7})\.(et|json)(\.gz)?")
_LARGEST = 1 << 30
"""Maximum size of a file when unpacked [bytes]: more would not fit into memory as nodes."""


def rank_files(path: Path) -> list[Path]:
    """The files of all ranks of the trace ``path``, a common prefix or one of the files.

    Raises
    ------
    UserError : there are none, or those of some ranks are missing.
    """
    given = _RANK_FILE.fullmatch(path.name)
    name = given["name"] if given else path.name
    files: dict[int, Path] = {}
    for one in sorted(path.parent.glob("*")) if path.parent.is_dir() else ():
        match = _RANK_FILE.fullmatch(one.name)
        if match and match["name"] == name:
            files.setdefault(int(match["rank"]), one)
    if not files:
        what = f"no trace is called {name!r}"
        how = f"its files must be called {name}.0.et, {name}.1.et, ... (or .json)"
        raise UserError(Problem(what, str(path.parent), how))
    missing = sorted(set(range(len(files))) - set(files))
    if missing:
        listed = ", ".join(map(str, missing[:10]))
        what = f"the files of ranks {listed} are missing; {len(files)} others exist"
        how = "ranks count from 0, and each needs a file"
        raise UserError(Problem(what, str(path), how))
    return [files[rank] for rank in range(len(files))]


def nodes_of(path: Path) -> list[Node]:
    """All nodes of one rank's file; a UserError if it is not a trace."""
    raw = _unpacked(contents(path), str(path))
    read = from_json if raw.lstrip()[:1] in (b"{", b"[") else _from_messages
    found = TraceProblems()
    nodes = list(read(raw, str(path), found))
    found.refuse()
    if not nodes:
        what = "there are no nodes in this trace"
        raise UserError(Problem(what, str(path), "the file is truncated, or is not a trace"))
    return nodes


def _unpacked(raw: bytes, where: str) -> bytes:
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        with gzip.open(io.BytesIO(raw)) as file:
            raw = file.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        what = f"cannot be unpacked: {error}"
        raise UserError(Problem(what, where, "the file is truncated or damaged")) from error
    if len(raw) > _LARGEST:
        raise UserError(Problem("more than 1 GiB when unpacked", where))
    return raw


def _from_messages(raw: bytes, where: str, found: TraceProblems) -> Iterator[Node]:
    """Nodes of a file of delimited protobuf messages; the first one is metadata."""
    node_class, decode_error = node_messages()
    for number, (offset, message) in enumerate(_delimited(raw, where, found)):
        if not number:
            continue
        try:
            node = node_class.FromString(message)
        except decode_error:
            what = f"the message at byte {offset} is not a Chakra node"
            found.add(what, where, "the file is damaged, or is not a Chakra trace")
            return
        kind = NODE_TYPES[node.type] if 0 <= node.type < len(NODE_TYPES) else str(node.type)
        yield Node(
            node.id, node.name, kind, tuple(node.data_deps), tuple(node.ctrl_deps),
            node.duration_micros, node.inputs.values,
            {attr.name: _value(attr) for attr in node.attr},
        )  # fmt: skip


def _value(attr: Any) -> Any:
    which = attr.WhichOneof("value")
    value = getattr(attr, which) if which else None
    return list(value.values) if which == "bool_list" and value is not None else value


def _delimited(raw: bytes, where: str, found: TraceProblems) -> Iterator[tuple[int, bytes]]:
    """Messages and their offsets; reports a truncated one as a problem."""
    at = 0
    while at < len(raw):
        begin, size, shift = at, 0, 0
        while at < len(raw) and shift < 35:
            byte = raw[at]
            size |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        if raw[at - 1] >= 0x80 or at + size > len(raw):
            what = f"the message at byte {begin} goes beyond the end of the file ({len(raw)} bytes)"
            found.add(what, where, "the file is truncated, or is not a Chakra trace")
            return
        yield begin, raw[at : at + size]
        at += size
