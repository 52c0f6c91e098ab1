"""Few files a day instead of one a commit, and no files of days that are too old.

The merged file is called by the first and last of those in it, and replaces them after it is on the
disk. If a crash comes between, both are there for a while: rows are then found twice, and who reads
takes distinct ones, until the next merge removes them.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.writing import write_table
from prism_common.folders import Names, OwnFolder

MOST_FILES = 64
"""Of a day and a table, before they are merged."""
_DAY = r"day=\d{4}-\d\d-\d\d"
_NAMES = Names(rf"(?:steps|layouts|findings)/{_DAY}/\d+(?:-\d+)?\.parquet")
_OTHER = "name another folder with --state"


def own_history(folder: Path) -> OwnFolder:
    """The files of a history in its folder."""
    return OwnFolder(folder, _NAMES, _OTHER)


def compact_day(history: OwnFolder, folder: str, schema: pa.Schema) -> None:
    """Merge the files of a day, if there are many; one that is damaged stays as it is."""
    names = [*history.files(folder)]
    if len(names) <= MOST_FILES:
        return
    tables = {name: table for name in names if (table := _table(history.path / name, schema))}
    if len(tables) < 2:
        return
    ends = [Path(name).stem.split("-") for name in tables]
    target = f"{folder}/{ends[0][0]}-{ends[-1][-1]}.parquet"
    rows = pa.concat_tables(tables.values()).group_by(schema.names).aggregate([])
    write_table(rows.select(schema.names), history.path_of(target), schema)
    for name in tables:
        if name != target:
            history.remove(name)


def _table(path: Path, schema: pa.Schema) -> pa.Table | None:
    try:
        return pq.read_table(path, partitioning=None).cast(schema)
    except (OSError, ValueError, pa.ArrowException):
        return None


def forget_days(history: OwnFolder, retention_days: int, today: str) -> None:
    """Remove the files of days before the retention time."""
    oldest = date.fromordinal(max(1, date.fromisoformat(today).toordinal() - retention_days))
    for path in history.path.glob("*/day=*"):
        if path.name.removeprefix("day=") < oldest.isoformat():
            history.remove_folder(f"{path.parent.name}/{path.name}")
