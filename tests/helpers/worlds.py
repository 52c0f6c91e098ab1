"""Worlds of one job, called ``solo``, on equal servers with a NIC for each GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def solo(cluster: Mapping[str, Any], collector: Mapping[str, Any] | None = None, **job: Any) -> str:
    """A scenario in JSON, which is YAML as well; ``job`` has the fields of the job."""
    sections = {} if collector is None else {"collector": collector}
    return json.dumps({"cluster": cluster, "jobs": [{"name": "solo", **job}], **sections})


def rail(servers: int, nics: int = 1, spines: int = 2, **more: Any) -> dict[str, Any]:
    """A cluster in which all NICs of one number are at one leaf; ``more`` has other fields."""
    own = {"servers": servers, "gpus_per_server": nics, "nics_per_server": nics}
    fabric = {"kind": "rail", "leaf_ports": servers, "spines": spines}
    return {**own, "fabric": fabric, **more}


def model(layers: int, hidden: int, heads: int, vocab: int, sequence_length: int) -> dict[str, int]:
    """A model, by what its volumes and times follow from."""
    return {
        "layers": layers, "hidden": hidden, "heads": heads, "vocab": vocab,
        "sequence_length": sequence_length,
    }  # fmt: skip


def effects(*kinds: str) -> list[dict[str, str]]:
    """Effects of telemetry without parameters of their own."""
    return [{"kind": kind} for kind in kinds]


def merged(idle_gap_us: int, *kinds: str) -> dict[str, Any]:
    """A collector whose records hold all messages that follow within a gap."""
    own = {"idle_gap_us": idle_gap_us, "message_boundary": False}
    return {**own, "effects": effects("headers", *kinds)}
