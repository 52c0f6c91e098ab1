"""The flow table as a file: records in one order of time, and notes on how they were cut.

Exporters send a record when it ends, sources follow one another, clocks differ: records do not
arrive in order. They are sorted in runs of a fixed number of rows, which are kept in a
temporary folder; the runs are then merged. The merge holds a part of each run: it hands on
all records up to the earliest end of the parts that it holds. As soon as there are many runs of
one level, they are merged to one run of the next level, so that neither open files nor the
parts that are held grow with the number of records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from llmprism.ingest.records import BATCH_ROWS, OPTIONAL, SCHEMA
from llmprism.io.clock import clock_tick_ns
from llmprism.io.notes import Notes
from prism_common.files import replacing

_TICK_SAMPLE = 200_000  # records looked at to see how fine the clock is
RUN_ROWS = 1 << 17
MOST_RUNS = 32  # of one level
_HELD_ROWS = 1 << 16  # of all runs together, while they are merged
_PART_ROWS = 1 << 11  # a run is read by this many
_ORDER = [("start_ns", "ascending"), ("end_ns", "ascending")]


@dataclass
class Seen:
    """What the written records show, collected while they pass.

    Attributes
    ----------
    pairs : records by (source, destination).
    paths : records by (path, source, destination).
    points : records by observation point.
    filled : columns with a value in any record.
    sampling : the largest sampling rate.
    """

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    paths: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    filled: set[str] = field(default_factory=set)
    sampling: int = 1
    first_ns: int | None = None
    last_ns: int = 0
    _times: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = field(default_factory=list)
    _sampled: int = 0

    def add(self, table: pa.Table) -> None:
        """Take note of a batch."""
        if not table.num_rows:
            return
        for (src, dst), count in _counts(table, "src", "dst"):
            self.pairs[src, dst] += count
        for (point,), count in _counts(table, "observer"):
            self.points[point] += count
        placed = table.filter(table["path"].is_valid())
        for (path, src, dst), count in _counts(placed, "path", "src", "dst"):
            self.paths[path, src, dst] += count
        self.filled |= {name for name in OPTIONAL if table[name].null_count < table.num_rows}
        self.sampling = max(self.sampling, pc.max(table["sampling"]).as_py() or 1)
        if self.first_ns is None:
            self.first_ns = int(table["start_ns"][0].as_py())
        self.last_ns = max(self.last_ns, int(pc.max(table["end_ns"]).as_py()))
        if self._sampled < _TICK_SAMPLE:
            self._times += [table["start_ns"].to_numpy(), table["end_ns"].to_numpy()]
            self._sampled += table.num_rows

    @property
    def tick_ns(self) -> int:
        """How fine the clock of the records is [ns]."""
        return clock_tick_ns(*self._times) if self._times else 1


def _counts(table: pa.Table, *names: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each combination of values, and how many records have it."""
    for row in table.group_by(list(names)).aggregate([([], "count_all")]).to_pylist():
        yield tuple(row[name] for name in names), int(row["count_all"])


def write_flows(
    batches: Iterable[pa.Table],
    path: Path,
    notes: Notes,
    known: Mapping[str, str],
    columns: Iterable[str],
) -> Seen:
    """Write the flow table; return what its records show.

    Parameters
    ----------
    known : notes for the file's metadata that are known beforehand.
    columns : the optional columns to write.
    """
    wanted = set(columns)
    names = [one for one in SCHEMA.names if one not in OPTIONAL or one in wanted]
    names.remove("observer")
    schema = pa.schema([SCHEMA.field(name) for name in names])
    seen = Seen()
    with replacing(path) as partial, _writer(partial, schema) as out:
        for table in batches:
            seen.add(table)
            notes.records += table.num_rows
            out.write_table(table.select(names))
        out.add_key_value_metadata({**known, **_shown(seen, notes)})
    return seen


def _shown(seen: Seen, notes: Notes) -> dict[str, str]:
    """Return the notes that the records themselves show."""
    found = {"clock": f"tick {seen.tick_ns} ns", "sampling": f"1:{seen.sampling}"}
    if notes.clock_error_ns is not None:
        found["clock_error_ns"] = str(notes.clock_error_ns)
    for name, values in (
        ("idle_gap_ns", notes.idle_gap_ns),
        ("active_timeout_ns", notes.active_timeout_ns),
    ):
        if len(values) == 1:
            found[name] = str(next(iter(values)))
        elif values:
            listed = ", ".join(str(value) for value in sorted(values))
            notes.remark(f"sources differ in {name}: {listed}; the flow table names none")
    return found


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer whose notes every library finds: without Arrow's copy of the schema."""
    return pq.ParquetWriter(path, schema, compression="zstd", store_schema=False)


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
