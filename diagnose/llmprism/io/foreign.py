"""Tables that other programs made: read from a folder, and checked as a whole.

Each table is ``<name>.parquet``, as in :data:`llmprism.io.tables.DIAGNOSIS`; one that is absent is
empty. Columns may be in any order, and there may be more of them. Types may differ if every value
fits. What is wrong is reported for all tables at once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.sources import first_line, readable
from llmprism.io.tables import DERIVED, DIAGNOSIS, KEYS, MAY_BE_NULL
from prism_common.errors import Problem, UserError

_HOW = "the columns of each table are in docs/methods.md"
_FRACTIONS = ("confidence",)
_ROUNDING = 1e-9  # by which a fraction may exceed 1


def read_tables(folder: Path, addresses: Collection[str]) -> dict[str, pd.DataFrame]:
    """Read and check the tables in ``folder``; those that are absent are left out.

    Parameters
    ----------
    addresses : the addresses of the topology; a table may name no others.

    Raises
    ------
    UserError : for every table that cannot be read or has wrong columns, types or values.
    """
    paths = {name: folder / f"{name}.parquet" for name in DIAGNOSIS}
    there = {name: path for name, path in paths.items() if path.exists()}
    found: dict[str, pd.DataFrame] = {}
    problems: list[Problem] = []
    for name, path in there.items():
        try:
            found[name] = _typed(name, path)
            problems += _wrong_values(name, found[name], path, addresses)
        except UserError as error:
            problems += error.problems
    if problems:
        raise UserError(problems)
    return found


def _typed(name: str, path: Path) -> pd.DataFrame:
    """The table in ``path`` with the contracted types."""
    if path.is_symlink() or not path.is_file():
        raise UserError(Problem(f"{path.name} is not a regular file", str(path)))
    with readable(path, what=f"{path.name} is not readable as Parquet"):
        table = pq.read_table(path)
    schema = DIAGNOSIS[name]
    problems: list[Problem] = []
    absent = [
        column for column in schema.names
        if column not in table.column_names and column not in DERIVED.get(name, ())
    ]  # fmt: skip
    if absent:
        what = f"{path.name} lacks the columns {', '.join(absent)}"
        needed = [column for column in schema.names if column not in DERIVED.get(name, ())]
        problems.append(Problem(what, str(path), f"it needs {', '.join(needed)}"))
    for place, column in enumerate(table.column_names):
        if column in schema.names:
            try:
                wanted = schema.field(column)
                table = table.set_column(place, wanted, _cast(table[column], wanted.type))
            except (pa.ArrowException, ValueError) as error:
                what = f"{path.name}: {column} does not fit {wanted.type}: {first_line(error)}"
                problems.append(Problem(what, str(path), _HOW))
    if problems:
        raise UserError(problems)
    frame: pd.DataFrame = table.to_pandas()
    for column in MAY_BE_NULL.get(name, ()):  # as a float, a time would lose its last digits
        frame[column] = pd.array(table[column].to_pylist(), "Int64")
    return frame


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(wanted)


def _wrong_values(
    name: str, table: pd.DataFrame, path: Path, addresses: Collection[str]
) -> Iterator[Problem]:
    """Problems of the values of a table that has the right types."""

    def problem(what: str, rows: pd.Series) -> Iterator[Problem]:
        if rows.any():
            where = f"row {int(rows.to_numpy().argmax())}"
            yield Problem(f"{path.name}: {what} ({where}, {int(rows.sum())} in all)", str(path))

    columns = [column for column in DIAGNOSIS[name].names if column in table]
    for column in columns:
        if column not in MAY_BE_NULL.get(name, ()):
            yield from problem(f"{column} has no value", table[column].isna())
    for column in ("address", "src", "dst"):
        if column in columns:
            strange = table[column].notna() & ~table[column].isin([*addresses])
            yield from problem(f"{column} is not an address of the topology", strange)
    for column in _FRACTIONS:
        if column in columns:
            outside = table[column].notna() & ~table[column].between(-_ROUNDING, 1 + _ROUNDING)
            yield from problem(f"{column} lies outside 0 to 1", outside)
    if {"start_ns", "end_ns"} <= {*columns}:
        yield from problem("end_ns lies before start_ns", table["end_ns"] < table["start_ns"])
    if "evidence" in columns:
        wrong = ~table["evidence"].map(_is_object).astype(bool)
        yield from problem("evidence is not a JSON object", wrong)
    key = [*KEYS[name]]
    if key and {*key} <= {*columns}:
        yield from problem(f"a second row with the same {', '.join(key)}", table.duplicated(key))


def _is_object(text: object) -> bool:
    try:
        return isinstance(json.loads(str(text)), dict)
    except (ValueError, RecursionError):
        return False
