"""Sampled counts: scaled by the sampling rate, and marked as estimates.

Where one packet in N was counted, bytes and packets are multiplied by N. The column
``sampling`` keeps N, which distinguishes an estimate from a count.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.bounds import LARGEST

_SCALED = ("bytes", "packets", "payload")


def scaled(table: pa.Table) -> pa.Table:
    """Return a batch with its counts multiplied by the rates in its column ``sampling``."""
    rate = pc.max_element_wise(pc.fill_null(table["sampling"], 1), 1)
    table = table.set_column(
        table.schema.get_field_index("sampling"), table.schema.field("sampling"), rate.cast("int32")
    )
    for name in _SCALED:
        counted = table[name]
        limit = pc.divide(LARGEST, rate.cast("int64"))
        small = pc.if_else(pc.less_equal(counted, limit), counted, None)
        estimate = pc.multiply(small, rate.cast("int64"))
        column = pc.if_else(pc.equal(rate, 1), counted, estimate)
        table = table.set_column(
            table.schema.get_field_index(name), table.schema.field(name), column
        )
    return table
