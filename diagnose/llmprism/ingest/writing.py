"""The flow table as a file: records in order of time, and notes on how they were cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from llmprism.ingest.notes import Notes
from llmprism.ingest.records import OPTIONAL, SCHEMA
from llmprism.io.clock import clock_tick_ns
from prism_common.files import replacing

_TICK_SAMPLE = 200_000  # records looked at to see how fine the clock is


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
