"""Flow records from any source as an Arrow table with the contracted columns.

A file or a pipe contains Parquet or Arrow IPC, with columns of exactly the contracted types. A
table in memory (pandas, Arrow) may have other types if every value
fits: data frames of scripts rarely have 32-bit ports, and may have times as timestamps.

A Parquet file can also be read part by part (:func:`stored`), so that not all of its records have
to be in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.sources import readable, seekable
from prism_common.errors import Problem, UserError

REQUIRED = {"start_ns": pa.int64(), "end_ns": pa.int64(), "bytes": pa.int64()}
NAMES = ("src", "dst")
OPTIONAL = {
    "src_port": pa.int32(),
    "dst_port": pa.int32(),
    "packets": pa.int64(),
    "payload": pa.int64(),
    "protocol": pa.int32(),
}
INTEGERS = {**REQUIRED, **OPTIONAL}
COLUMNS = {**INTEGERS, **dict.fromkeys(NAMES, pa.string()), "path": pa.string()}

_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_KIND = "Parquet file"
_REMEDY = (
    "if it is cut off or damaged, write it again; if it is other telemetry,"
    " llmprism ingest FILE makes it a table of flow records"
)
_CONVERT = "llmprism ingest FILE converts it; --time-unit names the unit of numeric times"
_NAME = "llmprism ingest FILE --map OURS=THEIRS,... gives columns of other names these names"
_PART = 1 << 18  # records that are read together


def load(path: Path | str) -> pa.Table:
    """Read the known columns from a file or a pipe; names stay dictionary-encoded.

    Raises
    ------
    UserError : with all errors at once: an unreadable or truncated file,
        missing columns, columns of the wrong type.
    """
    where = str(path)
    starts = (_PARQUET, _ARROW_FILE, _ARROW_STREAM)
    with seekable(path, starts, _KIND) as source, readable(where, _REMEDY):
        table = _read(source, where)
        table.validate(full=True)  # no index beyond its dictionary, no text but UTF-8
        return table


@dataclass(frozen=True)
class StoredRecords:
    """An open Parquet file of flow records.

    Attributes
    ----------
    file : the open file; names of hosts and switches are read as categories.
    names : the known columns that it has.
    where : what errors call it.
    """

    file: pq.ParquetFile
    names: list[str]
    where: str

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.file.metadata.num_rows)

    @property
    def notes(self) -> dict[bytes, bytes]:
        """The metadata of the file, with the exporter's notes."""
        return dict(self.file.schema_arrow.metadata or {})

    def parts(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Read the known columns, or those in ``names``, in parts of up to 2**18 records.

        Raises
        ------
        UserError : the file is damaged.
        """
        with readable(self.where, _REMEDY):
            for batch in self.file.iter_batches(_PART, columns=list(names or self.names)):
                table = pa.Table.from_batches([batch])
                table.validate(full=True)
                yield table


@contextmanager
def stored(path: Path | str) -> Iterator[StoredRecords]:
    """Open a Parquet file to read it part by part.

    Raises
    ------
    UserError : as :func:`load`.
    """
    where = str(path)
    with seekable(path, (_PARQUET,), _KIND) as source:
        with readable(where, _REMEDY):
            names = _checked(pq.read_schema(source), where)
            source.seek(0)
            records = StoredRecords(_parquet(source, names), names, where)
        yield records


def row_count(path: Path | str) -> int:
    """Number of records of a Parquet file; 0 for anything else, or if it is damaged.

    A pipe is not opened, since its content can be read only once.
    """
    try:
        return int(pq.read_metadata(path).num_rows) if Path(path).is_file() else 0
    except (pa.ArrowException, OSError, ValueError):
        return 0


def adopt(table: pd.DataFrame | pa.Table, where: str = "flows") -> pa.Table:
    """Return a table in memory with the contracted columns and types.

    Raises
    ------
    UserError : for missing columns, and for values that do not fit the contracted type.
    """
    if isinstance(table, pd.DataFrame):
        table = _from_pandas(table[[name for name in table.columns if name in COLUMNS]], where)
    problems = list(_absent(table.schema, where))
    columns = {}
    for name, wanted in COLUMNS.items():
        if table.schema.names.count(name) == 1:
            try:
                columns[name] = _cast(table[name], wanted)
            except (pa.ArrowException, ValueError) as error:
                message = str(error).splitlines()[0]
                problems.append(Problem(f"column {name!r} does not fit {wanted}: {message}", where))
    if problems:
        raise UserError(problems)
    return pa.table(columns, metadata=table.schema.metadata)


def _read(source: IO[bytes], where: str) -> pa.Table:
    start = source.read(len(_ARROW_FILE))
    source.seek(0)
    if start.startswith((_ARROW_FILE, _ARROW_STREAM)):
        as_file = start.startswith(_ARROW_FILE)
        reader = (pa.ipc.open_file if as_file else pa.ipc.open_stream)(source)
        names = _checked(reader.schema, where)
        return reader.read_all().select(names)
    schema = pq.read_schema(source)
    source.seek(0)
    names = _checked(schema, where)
    return _parquet(source, names).read(columns=names)


def _parquet(source: IO[bytes], names: Sequence[str]) -> pq.ParquetFile:
    coded = [name for name in names if name not in INTEGERS]
    return pq.ParquetFile(source, read_dictionary=coded)


def _checked(schema: pa.Schema, where: str) -> list[str]:
    """Return the columns to read; a UserError if one is missing or of another type."""
    problems = list(_absent(schema, where))
    for name, wanted in COLUMNS.items():
        if schema.names.count(name) == 1 and not _fits(schema.field(name).type, wanted):
            what = f"column {name!r} is {schema.field(name).type}, and must be {wanted}"
            problems.append(Problem(what, where, _CONVERT))
    if problems:
        raise UserError(problems)
    return [name for name in COLUMNS if name in schema.names]


def _absent(schema: pa.Schema, where: str) -> list[Problem]:
    problems = []
    for name, wanted in COLUMNS.items():
        count = schema.names.count(name)
        if count > 1:
            what = f"column {name!r} appears {count} times"
            problems.append(Problem(what, where, "keep one"))
        elif count == 0 and name in (*REQUIRED, *NAMES):
            what = f"column {name!r} ({wanted}) is missing"
            problems.append(Problem(what, where, _NAME))
    return problems


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    if wanted != pa.string():
        return bool(found == wanted)
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _from_pandas(frame: pd.DataFrame, where: str) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as error:
        message = str(error).splitlines()[0]
        raise UserError(Problem(f"not a table of flow records: {message}", where)) from error


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if _fits(column.type, wanted):
        return column
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", tz=column.type.tz))
    if pa.types.is_null(column.type) or wanted != pa.string():
        return column.cast(wanted)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    converted: Any = column.cast(wanted)
    return converted
