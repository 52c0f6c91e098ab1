"""Chakra execution traces as JSON, in both forms that Chakra's tools use.

``chakra_jsonizer`` writes the messages of a file as concatenated JSON objects. Chakra's feeder
reads one object with all nodes as a list, ``workload_graph``. Traces of PyTorch look similar, and
lack what a Chakra trace has (sizes of messages, dependencies between GPU operations); they are
refused with the converter's name.

References: https://github.com/mlcommons/chakra, ``src/jsonizer``, ``src/feeder/json_node.cpp``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from prism_sim.importers.base import TraceProblems
from prism_sim.importers.chakra_nodes import NODE_TYPES, Node

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
        {str(attr["name"]): _value(attr) for attr in value.get("attr", ())},
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


def _value(attr: dict[str, Any]) -> Any:
    for key, value in attr.items():
        bare = key.replace("_", "").lower()
        if bare == "boollist":
            return list(value.get("values", ()))
        if bare in ("boolval", "stringval"):
            return value if isinstance(value, bool) else _text(value)
        if bare.endswith("val"):
            return float(value) if bare.startswith(("double", "float")) else int(value)
    return None
