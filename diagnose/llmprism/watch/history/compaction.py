"""Few files a day instead of one a commit, and no files of days that are too old.

The merged file is called by the first and last of those in it, and replaces them after it is on the
disk. If a crash comes between, both are there for a while: rows are then found twice, and who reads
takes distinct ones, until the next merge removes them.
"""

from __future__ import annotations

import shutil
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from llmprism.io.writing import write_table

MOST_FILES = 64
"""Of a day and a table, before they are merged."""


def compact_day(folder: Path, schema: pa.Schema) -> None:
    """Merge the files of a day, if there are many."""
    paths = sorted(folder.glob("*.parquet"))
    if len(paths) <= MOST_FILES:
        return
    ends = [path.stem.split("-") for path in paths]
    target = folder / f"{ends[0][0]}-{ends[-1][-1]}.parquet"
    merged = pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])
    rows = merged.group_by(schema.names).aggregate([])
    write_table(rows.select(schema.names), target, schema)
    for path in paths:
        if path != target:
            path.unlink()


def forget_days(folder: Path, retention_days: int, today: str) -> None:
    """Remove the folders of days before the retention time."""
    oldest = (date.fromisoformat(today) - timedelta(days=retention_days)).isoformat()
    for path in folder.glob("*/day=*"):
        if path.name.removeprefix("day=") < oldest:
            shutil.rmtree(path)
