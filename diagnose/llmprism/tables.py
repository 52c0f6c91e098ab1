"""The tables of a diagnosis, as Arrow schemas, and how a table is written to disk.

Times are int64 nanoseconds on the collector's clock; ``address`` is a NIC address.
Durations and costs are in nanoseconds, confidences are fractions in [0, 1].
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

_NAME = pa.string()
_TIME = pa.int64()
_FRACTION = pa.float64()

DIAGNOSIS: dict[str, pa.Schema] = {
    "jobs": pa.schema([("job", _NAME), ("address", _NAME)]),
    "pairs": pa.schema(
        [
            ("job", _NAME),
            ("src", _NAME),
            ("dst", _NAME),
            ("kind", _NAME),
            ("kind_unrefined", _NAME),
            ("confidence", _FRACTION),
        ]
    ),
    "groups": pa.schema(
        [
            ("job", _NAME),
            ("kind", _NAME),
            ("group", pa.int64()),
            ("address", _NAME),
            ("position", pa.int64()),
        ]
    ),
    "steps": pa.schema(
        [
            ("job", _NAME),
            ("address", _NAME),
            ("step", pa.int64()),
            ("start_ns", _TIME),
            ("end_ns", _TIME),
            ("dp_end_ns", _TIME),
            ("confidence", _FRACTION),
        ]
    ),
    "spans": pa.schema(
        [
            ("job", _NAME),
            ("address", _NAME),
            ("step", pa.int64()),
            ("kind", _NAME),
            ("start_ns", _TIME),
            ("end_ns", _TIME),
        ]
    ),
    "findings": pa.schema(
        [
            ("finding", pa.int64()),
            ("level", _NAME),
            ("cause", _NAME),
            ("job", _NAME),
            ("culprit_kind", _NAME),
            ("culprit", _NAME),
            ("first_step", pa.int64()),
            ("last_step", pa.int64()),
            ("start_ns", _TIME),
            ("end_ns", _TIME),
            ("magnitude", pa.float64()),
            ("cost", pa.float64()),
            ("confidence", _FRACTION),
            ("evidence", _NAME),
        ]
    ),
}
"""Schema of every diagnosis table, by name."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place only if the block ends well.

    An interrupted run leaves no file that looks whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_table(frame: pd.DataFrame | pa.Table, path: Path, schema: pa.Schema) -> None:
    """Write ``frame`` as Parquet with exactly the columns and types of ``schema``."""
    if isinstance(frame, pd.DataFrame):
        frame = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    table = frame.select(schema.names).cast(schema).replace_schema_metadata(schema.metadata)
    with replacing(path) as partial:
        pq.write_table(table, partial, compression="zstd")
