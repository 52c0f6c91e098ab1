"""Traces written by hand: Chakra nodes in both forms, SimAI layers, timelines."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from prism_sim.importers.chakra_files import NODE_TYPES, node_messages
from prism_sim.toolkit import Run

COLLECTIVES = {"all_reduce": 0, "all_gather": 2, "broadcast": 5, "all_to_all": 6,
               "reduce_scatter": 7}  # fmt: skip


def sent(run: Run) -> dict[tuple[int, int, str], int]:
    """Bytes by sender, receiver and kind of traffic."""
    pairs = run.truth("pairs")
    rank = run.truth("ranks").set_index("address")["rank"]
    keys = zip(pairs["src"].map(rank), pairs["dst"].map(rank), pairs["kind"], strict=True)
    return dict(zip(keys, pairs["bytes"], strict=True))


def node(number: int, kind: str, deps: tuple[int, ...] = (), micros: int = 0, **attrs: Any) -> dict:
    """A node; ``kind`` without its ``_NODE``, attributes by name."""
    name = attrs.pop("name", f"{kind.lower()} {number}")
    return {
        "id": number, "name": name, "type": f"{kind}_NODE", "dataDeps": list(deps),
        "durationMicros": micros, "inputs": {"values": attrs.pop("values", "")},
        "attr": [{"name": key, _field(value): value} for key, value in attrs.items()],
    }  # fmt: skip


def comp(number: int, micros: int, *deps: int, **attrs: Any) -> dict:
    return node(number, "COMP", deps, micros, **attrs)


def coll(number: int, operation: str, size: int, *deps: int, **attrs: Any) -> dict:
    kind = COLLECTIVES[operation]
    return node(number, "COMM_COLL", deps, comm_type=kind, comm_size=size, **attrs)


def send(number: int, size: int, dst: int, *deps: int, **attrs: Any) -> dict:
    return node(number, "COMM_SEND", deps, comm_size=size, comm_dst=dst, **attrs)


def recv(number: int, size: int, src: int, *deps: int, **attrs: Any) -> dict:
    return node(number, "COMM_RECV", deps, comm_size=size, comm_src=src, **attrs)


def _field(value: Any) -> str:
    if isinstance(value, bool):
        return "boolVal"
    if isinstance(value, list):
        return "boolList"
    return "int64Val" if isinstance(value, int) else "stringVal"


def as_json(nodes: list[dict], indent: int | None = 1) -> str:
    """The nodes as ``chakra_jsonizer`` writes them, behind the metadata."""
    nodes = copy.deepcopy(nodes)
    for attr in (attr for one in nodes for attr in one["attr"]):
        if "boolList" in attr:
            attr["boolList"] = {"values": attr["boolList"]}
    return "\n".join(json.dumps(one, indent=indent) for one in [{"version": "0.0.4"}, *nodes])


def as_messages(nodes: list[dict], control: dict[int, list[int]] | None = None) -> bytes:
    """The nodes as delimited protobuf messages, behind the metadata.

    ``control`` has control dependencies by node.
    """
    parts = [b"\x0a\x050.0.4"]
    for one in nodes:
        message = node_messages()[0]()
        message.id, message.name = one["id"], one["name"]
        message.type = NODE_TYPES.index(one["type"])
        message.data_deps.extend(one["dataDeps"])
        message.ctrl_deps.extend((control or {}).get(one["id"], []))
        message.duration_micros = one["durationMicros"]
        message.inputs.values = one["inputs"]["values"]
        for given in one["attr"]:
            attr = message.attr.add(name=given["name"])
            ((key, value),) = [(k, v) for k, v in given.items() if k != "name"]
            if key == "boolList":
                attr.bool_list.values.extend(value)
            else:
                setattr(attr, key.replace("Val", "_val"), value)
        parts.append(message.SerializeToString())
    return b"".join(bytes(_varint(len(part))) + part for part in parts)


def _varint(number: int) -> list[int]:
    low, high = number & 0x7F, number >> 7
    return [low | 0x80, *_varint(high)] if high else [low]


def write_chakra(folder: Path, ranks: list[list[dict]], name: str = "trace") -> Path:
    """Write one JSON file a rank; returns the trace's common name."""
    for rank, nodes in enumerate(ranks):
        (folder / f"{name}.{rank}.json").write_text(as_json(nodes))
    return folder / name


HEADER = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: {tp} ep: {ep} pp: {pp} vpp: 1 "
    "ga: 1 all_gpus: {ranks} checkpoints: {again} checkpoint_initiates: 0 pp_comm: 0"
)


def simai(
    *layers: str, tp: int = 1, ep: int = 1, pp: int = 1, ranks: int = 4, again: int = 0
) -> str:
    """A SimAI workload of ``layers`` (words of each, the dependency left out)."""
    rows = [f"{layer.split()[0]} -1 {' '.join(layer.split()[1:])}" for layer in layers]
    header = HEADER.format(tp=tp, ep=ep, pp=pp, ranks=ranks, again=again)
    return "\n".join([header, str(len(rows)), *rows]) + "\n"
