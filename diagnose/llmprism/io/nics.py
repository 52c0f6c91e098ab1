"""NICs with several ports: one name for all of their addresses."""

from __future__ import annotations

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
