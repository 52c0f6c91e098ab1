"""Writes files so that an interrupted run leaves no incomplete file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.parts import InParts
from prism_common.files import replacing

ROWS = 1 << 20  # of a row group


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """Make a folder, and its parents, for what the block writes; none is left if it fails.

    Folders that exist, and what others wrote meanwhile, stay.
    """
    made = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # not empty
            for folder in made:
                folder.rmdir()
        raise


def write_table(
    table: pd.DataFrame | pa.Table | InParts, path: Path, schema: pa.Schema, further: bool = False
) -> None:
    """Write ``table`` as Parquet with exactly the columns and types of ``schema``.

    A large table is converted and written part by part. Categories are written as they are,
    since Parquet stores text as categories, and are read as text. With ``further``, all other
    columns are written after those of ``schema``.
    """
    parts = table.make() if isinstance(table, InParts) else iter([table])
    part = next(parts)
    if further:
        schema = _with_further_columns(part, schema)
    stored = _with_categories(part, schema)
    with (
        replacing(path) as partial,
        pq.ParquetWriter(
            partial, stored, compression="zstd", store_schema=stored == schema
        ) as writer,
    ):
        while part is not None:
            for first in range(0, max(len(part), 1), ROWS):
                writer.write_table(_conforming(part, first, stored))
            part = None  # before the next one is made
            part = next(parts, None)


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


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder next to ``folder`` that replaces it only if the block succeeds.

    After any failure, ``folder`` contains either all of the old files or all of the new ones.
    """
    folder = folder.resolve()  # a link stays a link, to the new content
    folder.parent.mkdir(parents=True, exist_ok=True)
    side, old = (
        folder.with_name(f".{folder.name}.{os.getpid()}.{state}") for state in ("partial", "old")
    )
    shutil.rmtree(side, ignore_errors=True)
    side.mkdir()
    try:
        yield side
        if folder.exists():
            folder.rename(old)
        try:
            side.rename(folder)
        except OSError:
            old.rename(folder)
            raise
    finally:
        shutil.rmtree(side, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
