"""Batches of flow records: the one form in which readers hand on what they read.

A batch is an Arrow table with the columns of :data:`SCHEMA`. What a source does not tell is
null. ``observer`` names the observation point, ``sampling`` is N where one packet in N was
counted and the counts were scaled by N. ``dst_qp`` is the destination queue pair of RoCE v2,
a part of what identifies a flow.

Where one packet in N was counted, bytes and packets are multiplied by N. The column ``sampling``
keeps N, which distinguishes an estimate from a count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.bounds import LARGEST, as_int64, column

SCHEMA = pa.schema(
    [
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("bytes", pa.int64()),
        ("src_port", pa.int32()),
        ("dst_port", pa.int32()),
        ("packets", pa.int64()),
        ("payload", pa.int64()),
        ("protocol", pa.int32()),
        ("dst_qp", pa.int32()),
        ("sampling", pa.int32()),
        ("observer", pa.string()),
        ("path", pa.string()),
    ]
)
OPTIONAL = ("src_port", "dst_port", "packets", "payload", "protocol", "dst_qp", "path")
"""Columns that are left out of the flow table where no source tells them."""
_TURNED = {"src": "dst", "dst": "src", "src_port": "dst_port", "dst_port": "src_port"}

BATCH_ROWS = 1 << 16
"""Records in a batch, about: enough for vector arithmetic, little memory."""


def batch(columns: Mapping[str, Any]) -> pa.Table:
    """Return columns as a batch; those that are missing are null."""
    rows = len(columns["start_ns"])
    arrays = []
    for field in SCHEMA:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(rows, field.type))
        elif isinstance(values, (pa.Array, pa.ChunkedArray)):
            arrays.append(values.cast(field.type))
        else:
            arrays.append(_array(values, field.type))
    return pa.table(arrays, schema=SCHEMA)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    """Return values as a column; counts and times that are none are null."""
    if kind != pa.int64():
        return pa.array(values, type=kind)
    try:
        numbers = np.array(values, dtype=np.int64)
    except (OverflowError, TypeError):  # beyond 64 bits, or None
        numbers = np.array(values, dtype=np.object_)
    return column(*as_int64(numbers))


def turned(table: pa.Table) -> pa.Table:
    """Return a batch with sources and destinations in each other's place."""
    names = [_TURNED.get(name, name) for name in SCHEMA.names]
    return table.select(names).rename_columns(SCHEMA.names)


class BatchBuilder:
    """Collects records one at a time and yields a batch when there are enough."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._rows: list[tuple[Any, ...]] = []

    def add(self, *values: Any) -> None:
        """Add one record: its values in the order of the names."""
        self._rows.append(values)

    def full(self) -> Iterator[pa.Table]:
        """Yield a batch if enough records were collected."""
        if len(self._rows) >= BATCH_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[pa.Table]:
        """Yield what was collected, if anything."""
        if self._rows:
            columns = dict(zip(self._names, zip(*self._rows, strict=True), strict=True))
            self._rows = []
            yield batch(columns)


def text_tables(rows: Iterable[Sequence[str | None]], names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield tables of text with these columns, a bounded number of rows at a time."""
    rest = iter(rows)
    while held := list(islice(rest, BATCH_ROWS)):
        columns = zip(names, zip(*held, strict=True), strict=True)
        yield pa.table({name: pa.array(values, pa.string()) for name, values in columns})


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
