"""Records of all sources in one order of time, with bounded memory.

Exporters send a record when it ends, sources follow one another, clocks differ: records do not
arrive in order. They are sorted in runs of a fixed number of rows, which are kept in a
temporary folder; the runs are then merged. The merge holds a part of each run: it hands on
all records up to the earliest end of the parts that it holds. As soon as there are many runs of
one level, they are merged to one run of the next level, so that neither open files nor the
parts that are held grow with the number of records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.records import BATCH_ROWS, SCHEMA

RUN_ROWS = 1 << 17
MOST_RUNS = 32  # of one level
_HELD_ROWS = 1 << 16  # of all runs together, while they are merged
_PART_ROWS = 1 << 11  # a run is read by this many
_ORDER = [("start_ns", "ascending"), ("end_ns", "ascending")]


class TimeOrder:
    """Takes batches in any order and gives them back in order of time.

    Parameters
    ----------
    folder : where runs are kept while they are needed.
    run_rows : records sorted in memory at a time.
    """

    def __init__(self, folder: Path, run_rows: int = RUN_ROWS) -> None:
        self._folder = folder
        self._run_rows = run_rows
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._runs: dict[int, list[Path]] = defaultdict(list)  # by level
        self._written = 0
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        """Add a batch."""
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        self.rows += table.num_rows
        if self._waiting_rows >= self._run_rows:
            self._write(iter([self._sorted()]), 0)

    def merged(self) -> Iterator[pa.Table]:
        """Yield all records in order of time, in batches."""
        if self._waiting and self._runs:
            self._write(iter([self._sorted()]), 0)
        if not self._runs:
            yield from _split(self._sorted())
        else:
            yield from _merged([path for level in self._runs.values() for path in level])

    def _sorted(self) -> pa.Table:
        table = pa.concat_tables(self._waiting) if self._waiting else SCHEMA.empty_table()
        self._waiting, self._waiting_rows = [], 0
        return table.sort_by(_ORDER)

    def _write(self, batches: Iterator[pa.Table], level: int) -> None:
        """Write records, which are in order of time, as a run; merge a level that is full."""
        path = self._folder / f"run-{self._written}.arrow"
        self._written += 1
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
            for table in batches:
                writer.write_table(table, max_chunksize=_PART_ROWS)
        runs = self._runs[level]
        runs.append(path)
        if len(runs) >= MOST_RUNS:
            self._write(_merged(runs), level + 1)
            for old in runs:
                old.unlink()
            runs.clear()


def _merged(runs: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield the records of runs in order of time, in batches."""
    parts = [_Part(path, len(runs)) for path in runs]
    while held := [part for part in parts if part.fill()]:
        limit = min(part.last_start for part in held)
        ready = pa.concat_tables([part.take_until(limit) for part in held])
        yield from _split(ready.sort_by(_ORDER))


class _Part:
    """The records of one run that are held in memory, and the rest of the run."""

    def __init__(self, path: Path, runs: int) -> None:
        self._reader: Any = pa.ipc.open_file(pa.OSFile(str(path), "rb"))
        self._next = 0
        self._rows = max(_PART_ROWS, _HELD_ROWS // runs)
        self._held = SCHEMA.empty_table()

    def fill(self) -> bool:
        """Hold records if there are any left; return whether there are."""
        while self._held.num_rows < self._rows and self._next < self._reader.num_record_batches:
            more = pa.Table.from_batches([self._reader.get_batch(self._next)])
            self._held = pa.concat_tables([self._held, more])
            self._next += 1
        return bool(self._held.num_rows)

    @property
    def last_start(self) -> int:
        """Up to which start everything of this run is held."""
        return int(self._held["start_ns"][-1].as_py())

    def take_until(self, limit: int) -> pa.Table:
        """Remove and return the held records that start at ``limit`` or before."""
        count = pc.sum(pc.less_equal(self._held["start_ns"], limit)).as_py()
        taken, self._held = self._held.slice(0, count), self._held.slice(count)
        return taken


def _split(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, BATCH_ROWS):
        yield table.slice(start, BATCH_ROWS)
