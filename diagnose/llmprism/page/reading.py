"""What a page reads of a folder: flow records, topology and the tables of a diagnosis.

A folder may be complete or not. A missing table is read as an empty one with the usual columns, so
every part of a page can be made for every folder. A damaged one is an error of the user.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.sources import readable
from llmprism.io.stored_tables import REPEAT, Where, read_stored, required_columns
from llmprism.io.tables import DIAGNOSIS
from prism_common.errors import Problem, UserError

_read_already: ContextVar[dict[Path, pd.DataFrame] | None] = ContextVar("tables", default=None)


@contextmanager
def reading_once() -> Iterator[None]:
    """Read every whole table only once inside of this context."""
    token = _read_already.set({})
    try:
        yield
    finally:
        _read_already.reset(token)


def diagnosis(folder: Path, name: str, where: Where | None = None) -> pd.DataFrame:
    """Diagnosis table ``name``, or its rows ``where`` conditions hold; empty if there is none."""
    path = diagnosis_folder(folder) / f"{name}.parquet"
    return read_table(path, DIAGNOSIS[name], required_columns(name), where)


def diagnosis_folder(folder: Path) -> Path:
    """The folder of the diagnosis tables: ``diagnosis``, or the folder itself."""
    inside = folder / "diagnosis"
    return folder if (folder / "intake.json").exists() and not inside.exists() else inside


def intake(folder: Path) -> dict[str, Any]:
    """Method, and counts of records read and set aside, as the diagnoser recorded them."""
    return read_json(diagnosis_folder(folder) / "intake.json")


def topology(folder: Path) -> dict[str, Any]:
    """The content of ``topology.json``."""
    return read_json(folder / "topology.json")


def row_count(path: Path) -> int:
    """Length of a table, without reading it; 0 if there is none."""
    with readable(path, REPEAT):
        return int(pq.read_metadata(path).num_rows) if path.exists() else 0


def read_table(
    path: Path, schema: pa.Schema, required: Collection[str], where: Where | None = None
) -> pd.DataFrame:
    """A table with at least the columns of ``schema``; empty if the file does not exist.

    Raises
    ------
    UserError : the table is not readable, lacks ``required`` columns, or has some of other types.
    """
    known = _read_already.get()
    if known is None or where is not None:
        return _read_again(path, schema, required, where)
    if path not in known:
        known[path] = _read_again(path, schema, required, where)
    return known[path].copy()


def _read_again(
    path: Path, schema: pa.Schema, required: Collection[str], where: Where | None
) -> pd.DataFrame:
    table = schema.empty_table()
    nothing = any(operator == "in" and not len(value) for _, operator, value in where or ())
    if path.exists() and not nothing:
        table = read_stored(path, schema, required, where=where)
    return complete(table.to_pandas(), schema)


def flows(folder: Path, wanted: Iterable[str], where: Where | None = None) -> pd.DataFrame:
    """Columns ``wanted`` of the flow table, names as categories; a missing one is all null.

    Only the records ``where`` conditions hold.
    """
    columns, path = list(wanted), folder / "flows.parquet"
    if not path.exists():
        return pd.DataFrame(columns=columns)
    with readable(path, REPEAT):
        there = [name for name in columns if name in pq.read_schema(path).names]
        names = [name for name in there if name in ("src", "dst", "path")]
        table = pq.read_table(path, columns=there, read_dictionary=names, filters=where)
    frame = table.to_pandas()
    for name in names:
        frame[name] = frame[name].astype("category")
    for name in set(columns) - set(there):
        frame[name] = pd.Series(np.nan, index=frame.index)
    return pd.DataFrame(frame[columns])


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; empty if the file does not exist.

    Raises
    ------
    UserError : the file contains something else.
    """
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(Problem(f"not valid JSON: {error}", str(path))) from error
    if not isinstance(content, dict):
        raise UserError(Problem("this is no JSON object", str(path)))
    return content


def complete(frame: pd.DataFrame, schema: pa.Schema) -> pd.DataFrame:
    """``frame`` with all columns of ``schema``.

    Names become plain text, since grouping by categories creates groups of absent names.
    """
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].astype(frame[name].cat.categories.dtype)
    missing = [name for name in schema.names if name not in frame.columns]
    return frame.assign(**dict.fromkeys(missing)) if missing else frame
