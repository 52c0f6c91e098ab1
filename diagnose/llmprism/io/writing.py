"""Writes files so that an interrupted run leaves no incomplete file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.parts import InParts
from prism_common.files import replacing

ROWS = 1 << 20  # of a row group


def write_table(
    table: pd.DataFrame | pa.Table | InParts, path: Path, schema: pa.Schema, further: bool = False
) -> None:
    """Write ``table`` as Parquet with exactly the columns and types of ``schema``.

    A large table is converted and written part by part. Categories are written as they are,
    since Parquet stores text as categories, and are read as text. With ``further``, all other
    columns are written after those of ``schema``.
    """
    parts = table.make() if isinstance(table, InParts) else iter([table])
    first = next(parts)
    if further:
        schema = _with_further_columns(first, schema)
    stored = _with_categories(first, schema)
    with (
        replacing(path) as partial,
        pq.ParquetWriter(
            partial, stored, compression="zstd", store_schema=stored == schema
        ) as writer,
    ):
        groups = _row_groups(chain([first], parts), stored)
        del first
        _write_behind(writer, groups)


def _row_groups(parts: Iterable[pd.DataFrame | pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """All ``parts``, a row group at a time."""
    for part in parts:
        for first in range(0, max(len(part), 1), ROWS):
            yield _conforming(part, first, schema)
        del part  # before the next one is made


def _write_behind(writer: pq.ParquetWriter, groups: Iterator[pa.Table]) -> None:
    """Write each of the ``groups`` while the next one is made."""
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(writer.write_table, next(groups))
        for group in groups:
            written.result()
            written = pool.submit(writer.write_table, group)
        written.result()


def _with_further_columns(table: pd.DataFrame, schema: pa.Schema) -> pa.Schema:
    """Return ``schema`` with a field for every further column."""
    further = [column for column in table.columns if column not in schema.names]
    if not further:
        return schema
    found = pa.Schema.from_pandas(table[further], preserve_index=False)
    return pa.schema([*schema, *found])


def _with_categories(frame: pd.DataFrame | pa.Table, schema: pa.Schema) -> pa.Schema:
    """``schema`` with the type of categories for text that ``frame`` has as categories."""
    if not isinstance(frame, pd.DataFrame):
        return schema
    kept = pa.dictionary(pa.int32(), pa.string())
    for place, one in enumerate(schema):
        is_category = isinstance(frame[one.name].dtype, pd.CategoricalDtype)
        if is_category and one.type == pa.string():
            schema = schema.set(place, one.with_type(kept))
    return schema


def _conforming(frame: pd.DataFrame | pa.Table, first: int, schema: pa.Schema) -> pa.Table:
    """The rows of one row group, with the columns and types of ``schema``."""
    if isinstance(frame, pd.DataFrame):
        rows = frame.iloc[first : first + ROWS]
        part = pa.Table.from_pandas(rows, schema=schema, preserve_index=False)
    else:
        part = frame.slice(first, ROWS)
    return part.select(schema.names).cast(schema).replace_schema_metadata(schema.metadata)
