"""NICs with several ports: one name for all of their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.io.loading import NAMES
from llmprism.io.topology import Topology


def named_by_nic(records: pa.Table, topology: Topology) -> pa.Table:
    """``records`` with the first address of a NIC in place of those of its other ports."""
    names = topology.addresses
    other = {address: names[code] for address, code in topology.codes.items()}
    other = {address: name for address, name in other.items() if address != name}
    if not other:
        return records
    ports, nics = pa.array([*other], pa.string()), pa.array([*other.values()], pa.string())
    for name in NAMES:
        place = records.schema.get_field_index(name)
        column = records[name].cast(pa.string())
        nic = pc.take(nics, pc.index_in(column, value_set=ports))
        field = records.schema.field(place)
        records = records.set_column(place, field, pc.coalesce(nic, column).cast(field.type))
    return records


def first_ports(topology: Mapping[str, Any]) -> dict[str, str]:
    """The first address of the NIC of each further one, by the content of ``topology.json``."""
    first: dict[tuple[Any, Any], str] = {}
    found: dict[str, str] = {}
    for end in topology.get("endpoints", []):
        if end.get("port") is not None and end.get("nic") is not None:
            name = first.setdefault((end.get("server"), end["nic"]), str(end["address"]))
            found |= {str(end["address"]): name} if name != end["address"] else {}
    return found


def frame_by_nic(records: pd.DataFrame, topology: Mapping[str, Any]) -> pd.DataFrame:
    """As :func:`named_by_nic`, for a data frame."""
    first = first_ports(topology)
    if not first:
        return records
    return records.assign(**{name: records[name].astype(str).replace(first) for name in NAMES})


def bonds(topology: Mapping[str, Any]) -> dict[str, set[str]]:
    """The leaves of each address with cables to several; a path tells which one a record saw."""
    switches = {str(one["name"]) for one in topology.get("switches", [])}
    found: dict[str, set[str]] = {
        str(end["address"]): set() for end in topology.get("endpoints", [])
    }
    for link in topology.get("links", []):
        for nic, leaf in ((link["a"], link["b"]), (link["b"], link["a"])):
            if nic in found and leaf in switches:
                found[nic].add(leaf)
    return {address: leaves for address, leaves in found.items() if len(leaves) > 1}
