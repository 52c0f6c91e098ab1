"""Files of Chakra execution traces: nodes as protobuf messages or as JSON.

A trace is one file a rank, ``NAME.RANK.et``: a message of global metadata, then one message a node,
each after its length as a varint; the file may be gzipped. The library for messages is an optional
dependency, so it is imported only for these, and only the fields that a simulation needs are
declared, at run time.

JSON (``NAME.RANK.json``) has both forms that Chakra's tools use. ``chakra_jsonizer`` writes the
messages of a file as concatenated JSON objects. Chakra's feeder reads one object with all nodes as
a list, ``workload_graph``. Traces of PyTorch look similar, and lack what a Chakra trace has (sizes
of messages, dependencies between GPU operations); they are refused with the converter's name.

References: https://github.com/mlcommons/chakra, ``schema/protobuf/et_def.proto``, ``src/jsonizer``,
``src/feeder/json_node.cpp``.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prism_common.errors import Problem, UserError
from prism_sim.importers.base import TraceProblems, contents

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

_RANK_FILE = re.compile(r"(?P<name>.*)\.(?P<rank>\d{1,7})\.(et|json)(\.gz)?")
_LARGEST = 1 << 30
"""Maximum size of a file when unpacked [bytes]: more would not fit into memory as nodes."""

NODE_TYPES = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE",
    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE", "STORAGE_NODE", "BATCH_NODE",
    "CHECKPOINT_NODE",
)  # fmt: skip
"""Names of node types by their numbers."""


@dataclass(frozen=True)
class Node:
    """The used fields of one node of a rank's trace.

    Attributes
    ----------
    type : one of :data:`NODE_TYPES`, or its number if that is unknown.
    data_deps : nodes whose results it needs; they must finish first.
    control_deps : nodes that must finish first if the trace has them.
    values : the values of the node's inputs in the trace.
    attrs : attributes by name.
    """

    id: int
    name: str
    type: str
    data_deps: tuple[int, ...] = ()
    control_deps: tuple[int, ...] = ()
    duration_micros: int = 0
    values: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def deps(self) -> set[int]:
        """All nodes that must finish first."""
        return {*self.data_deps, *self.control_deps}


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


PACKAGE = "prism_sim.chakra"

VALUES = {
    "double_val": (3, "DOUBLE"), "float_val": (5, "FLOAT"), "int32_val": (7, "INT32"),
    "int64_val": (9, "INT64"), "uint32_val": (11, "UINT32"), "uint64_val": (13, "UINT64"),
    "sint32_val": (15, "SINT32"), "sint64_val": (17, "SINT64"), "fixed32_val": (19, "FIXED32"),
    "fixed64_val": (21, "FIXED64"), "sfixed32_val": (23, "SFIXED32"),
    "sfixed64_val": (25, "SFIXED64"), "bool_val": (27, "BOOL"), "bool_list": (28, "BoolList"),
    "string_val": (29, "STRING"),
}  # fmt: skip
"""The alternatives of an attribute's value: field number and type."""

MESSAGES = {
    "BoolList": {"values": (1, "BOOL*")},
    "IOInfo": {"values": (1, "STRING")},
    "Attribute": {"name": (1, "STRING"), **VALUES},
    "Node": {
        "id": (1, "UINT64"), "name": (2, "STRING"), "type": (3, "INT32"),
        "ctrl_deps": (4, "UINT64*"), "data_deps": (5, "UINT64*"),
        "duration_micros": (7, "UINT64"), "inputs": (8, "IOInfo"), "attr": (10, "Attribute*"),
    },
}  # fmt: skip
"""Fields of each message: number and type; a star marks repeated ones."""


@cache
def node_messages() -> tuple[Any, type[Exception]]:
    """The class of a node's messages, and the exception that it raises for invalid bytes.

    Raises
    ------
    UserError : protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError as error:
        what = "reading a Chakra trace of protobuf messages needs the package protobuf"
        how = "pip install 'prism-sim[chakra]', or give the trace as JSON (chakra_jsonizer)"
        raise UserError(Problem(what, "", how)) from error
    schema = descriptor_pb2.FileDescriptorProto(
        name="prism_sim_chakra.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        _declare(schema.message_type.add(name=name), fields)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(schema)
    node = pool.FindMessageTypeByName(f"{PACKAGE}.Node")
    return message_factory.GetMessageClass(node), DecodeError


def _declare(message: DescriptorProto, fields: dict[str, tuple[int, str]]) -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Form

    for name, (number, kind) in fields.items():
        bare = kind.rstrip("*")
        label = Form.LABEL_OPTIONAL if bare == kind else Form.LABEL_REPEATED
        field = message.field.add(name=name, number=number, label=label)
        if bare in MESSAGES:
            field.type, field.type_name = Form.TYPE_MESSAGE, f".{PACKAGE}.{bare}"
        else:
            field.type = getattr(Form, f"TYPE_{bare}")
        if name in VALUES:
            field.oneof_index = 0
    if set(VALUES) <= set(fields):
        message.oneof_decl.add(name="value")


_GRAPH = "workload_graph"
_CONVERT = "chakra_trace_link with {} gives the input of: chakra_converter PyTorch"
_OTHERS = {
    "traceEvents": (
        "a Kineto trace (torch.profiler)",
        _CONVERT.format("it and the host's execution trace"),
    ),
    "nodes": ("a PyTorch execution trace", _CONVERT.format("it and the Kineto trace")),
}
"""JSON that is no Chakra trace, by a key of it: what it is, and how to convert it."""

_ATTRIBUTES = ("comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name", "num_ops",
               "is_cpu_op", "involved_dim")  # fmt: skip


def from_json(raw: bytes, where: str, found: TraceProblems) -> Iterator[Node]:
    """Yield the nodes of a file; what is no node is added to ``found``."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        found.add("not a text file", where)
        return
    decoder, at, number = json.JSONDecoder(), _next(text, 0), 0
    while at < len(text):
        line = f"{where}:{text.count(chr(10), 0, at) + 1}"
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            found.add(f"not valid JSON: {error}", line, "the file is truncated or damaged")
            return
        at = _next(text, at)
        if not number and at == len(text):
            yield from _whole_file(value, where, found)
        elif number or (isinstance(value, dict) and "type" in value):
            yield from _nodes([value], _jsonizer_node, line, found)
        number += 1


def _next(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _whole_file(value: Any, where: str, found: TraceProblems) -> Iterator[Node]:
    """Yield the nodes of a file that is one JSON value."""
    keys = value.keys() if isinstance(value, dict) else ()
    events = isinstance(value, list) and value and isinstance(value[0], dict) and "ph" in value[0]
    other = next((one for one in _OTHERS if one in keys or (events and one == "traceEvents")), None)
    if _GRAPH in keys and isinstance(value[_GRAPH], list):
        yield from _nodes(value[_GRAPH], _graph_node, where, found)
    elif other:
        what, how = _OTHERS[other]
        found.add(f"this is {what}, not a Chakra trace", where, how)
    elif "type" in keys:
        yield from _nodes([value], _jsonizer_node, where, found)


def _nodes(
    values: list[Any], node_of: Callable[[dict[str, Any]], Node], where: str, found: TraceProblems
) -> Iterator[Node]:
    for value in values:
        try:
            yield node_of({key.replace("_", "").lower(): item for key, item in value.items()})
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            found.add(f"this is not a Chakra node: {error}", where)


def _jsonizer_node(value: dict[str, Any]) -> Node:
    """A node from the JSON mapping of protocol buffers: 64-bit integers are strings there."""
    return Node(
        int(value.get("id", 0)), _text(value.get("name", "")), _kind(value.get("type", 0)),
        _ids(value, "datadeps"), _ids(value, "ctrldeps"), int(value.get("durationmicros", 0)),
        str(value.get("inputs", {}).get("values", "")),
        {str(attr["name"]): _json_value(attr) for attr in value.get("attr", ())},
    )  # fmt: skip


def _graph_node(value: dict[str, Any]) -> Node:
    """A node of ``workload_graph``; ``runtime`` is in microseconds, as ``duration_micros``."""
    attrs = {name: value.get(name.replace("_", "")) for name in _ATTRIBUTES}
    return Node(
        int(value["id"]), _text(value.get("name", "")), _kind(value["nodetype"]),
        _ids(value, "datadeps"), _ids(value, "ctrldeps"), int(value.get("runtime", 0)),
        attrs={name: item for name, item in attrs.items() if item is not None},
    )  # fmt: skip


def _kind(written: Any) -> str:
    if isinstance(written, int):
        return NODE_TYPES[written] if 0 <= written < len(NODE_TYPES) else str(written)
    return str(written)


def _ids(value: dict[str, Any], key: str) -> tuple[int, ...]:
    return tuple(map(int, value.get(key, ())))


def _text(value: Any) -> str:
    """Text that can be encoded in UTF-8: JSON can contain unpaired surrogates, which cannot."""
    return str(value).encode("utf-8", "replace").decode()


def _json_value(attr: dict[str, Any]) -> Any:
    for key, value in attr.items():
        bare = key.replace("_", "").lower()
        if bare == "boollist":
            return list(value.get("values", ()))
        if bare in ("boolval", "stringval"):
            return value if isinstance(value, bool) else _text(value)
        if bare.endswith("val"):
            return float(value) if bare.startswith(("double", "float")) else int(value)
    return None
