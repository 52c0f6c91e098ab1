"""The records of the last window, as files in the order in which they came.

A part has the records that were taken together, as their readers gave them. The window is made from
all parts that reach into it as one ingest makes a flow table: in order of time, each record once,
even if several switches saw it. Records within a known job are in row groups of their own, so that
a diagnosis of few jobs reads their records only.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from llmprism.collectives.reading import Reader
from llmprism.collectives.reading import Records as Operations
from llmprism.ingest.ingesting import write_in_order
from llmprism.ingest.options import Options
from llmprism.ingest.records import SCHEMA
from llmprism.io.notes import Notes
from llmprism.watch.settings import Settings
from llmprism.watch.state import KnownJob, Part, State
from llmprism.watch.state_folder import force_names

_GROUP = 1_000  # records of each job, at least, in a part that is divided
_CUTS = ("idle_gap_ns", "active_timeout_ns")


@dataclass(frozen=True)
class Span:
    """A stretch of time, from ``start_ns`` up to ``end_ns`` [ns].

    Its records are those that start and end in it: none that ends later has come if records come in
    the order in which they end.
    """

    start_ns: int
    end_ns: int


def write_part(
    records: pa.Table, notes: Notes, folder: Path, name: str, jobs: Sequence[KnownJob]
) -> Part:
    """Write records as a part, and force it to the disk."""
    path, groups = folder / name, _by_job(records, jobs)
    with path.open("wb") as file:
        with pq.ParquetWriter(
            file, groups[0][1].schema, compression="zstd", store_schema=False
        ) as out:
            for _, own in groups:
                out.write_table(own, row_group_size=max(own.num_rows, 1))
        file.flush()
        os.fsync(file.fileno())
    force_names(folder)
    cuts = {cut: sorted(getattr(notes, cut)) for cut in _CUTS}
    first, last = pc.min(records["start_ns"]).as_py(), pc.max(records["end_ns"]).as_py()
    marks = [mark for mark, _ in groups]
    named = sorted(notes.named_points)
    return Part(name, records.num_rows, int(first), int(last), cuts, marks, named)


def _by_job(records: pa.Table, jobs: Sequence[KnownJob]) -> list[tuple[str, pa.Table]]:
    """The records within each job, with its mark, and all others; undivided if they are few."""
    if records.num_rows < _GROUP * len(jobs) or len(jobs) < 2:
        return [("", records)]
    ordered = sorted(jobs, key=lambda one: one.seen_ns)
    place_of = {address: place for place, one in enumerate(ordered) for address in one.addresses}
    values = pa.array([*place_of], pa.string())
    places = np.array([*place_of.values(), -1])
    src, dst = (
        places[pc.index_in(records[side], value_set=values).fill_null(-1).to_numpy()]
        for side in ("src", "dst")
    )
    place = np.where(src == dst, src, -1)
    records = records.take(pa.array(np.argsort(place, kind="stable")))
    begin = np.searchsorted(np.sort(place), np.arange(-1, len(ordered) + 1))
    marks = ["", *(one.mark for one in ordered)]
    return [
        (mark, records.slice(first, last - first))
        for mark, (first, last) in zip(marks, pairwise(begin.tolist()), strict=True)
        if last > first
    ]


def next_span(
    state: State, settings: Settings, until_ns: int, later_ns: int | None, is_last: bool
) -> Span | None:
    """The next window; None if records have not come up to its end.

    All windows end at multiples of a stride. So where they lie depends on the times of records
    alone, and not on when these arrive. The first one is as long as the pause between two
    diagnoses, at least. Where no record is for more than half of a window, the window moves to the
    next one. The last window of all ends with the records.

    ``until_ns`` is the time up to which records have come, and ``later_ns`` the end of the first
    one that no window had.
    """
    if not state.parts or later_ns is None:
        return None
    since_ns = state.cursor_ns
    if since_ns is None:
        since_ns = min(part.first_ns for part in state.parts) + settings.pause_ns
    elif later_ns > since_ns + settings.window_ns // 2:
        since_ns = later_ns - 1
    end_ns = (since_ns // settings.stride_ns + 1) * settings.stride_ns
    if end_ns > until_ns:
        if not is_last or until_ns <= (state.cursor_ns or 0):
            return None
        end_ns = until_ns
    return Span(end_ns - settings.window_ns, end_ns)


@dataclass
class Seen:
    """What the records of a window show before any are left out.

    Attributes
    ----------
    recorded_ns : when the first one begins, and when the last one ends [ns].
    senders : addresses that send, or that a job has which is left out.
    """

    recorded_ns: tuple[int, int] = (2**63 - 1, 0)
    senders: set[str] = field(default_factory=set)

    def add(self, records: pa.Table) -> None:
        """Take note of records."""
        if records.num_rows:
            first, last = pc.min(records["start_ns"]).as_py(), pc.max(records["end_ns"]).as_py()
            self.recorded_ns = min(self.recorded_ns[0], first), max(self.recorded_ns[1], last)
            self.senders.update(records["src"].unique().to_pylist())


def write_window(
    parts: Sequence[Part],
    folder: Path,
    span: Span,
    options: Options,
    target: Path,
    without: Sequence[KnownJob] = (),
) -> Seen:
    """Write the records of a window as a flow table, in bounded memory.

    Those from or to addresses of the jobs ``without`` are not written.
    """
    addresses = {address for one in without for address in one.addresses}
    seen = Seen(senders=set(addresses))
    inside, notes = _reaching(parts, span, of_collectives=False), Notes()
    for part in inside:
        for cut in _CUTS:
            getattr(notes, cut).update(part.notes.get(cut, []))
        notes.named_points.update(part.named)
    tables = _inside(inside, folder, span, seen, without)
    write_in_order((_without(one, addresses) for one in tables), target, options, notes)
    return seen


def _reaching(parts: Sequence[Part], span: Span, *, of_collectives: bool) -> list[Part]:
    return [one for one in parts if one.last_ns > span.start_ns and one.first_ns <= span.end_ns
            and one.is_of_collectives == of_collectives]  # fmt: skip


def operations_in(
    parts: Sequence[Part], folder: Path, span: Span, without: Sequence[KnownJob] = ()
) -> Operations:
    """The operations of collectives that end in a window, but for those of some jobs."""
    reader, addresses = Reader(), {address for one in without for address in one.addresses}
    inside = _reaching(parts, span, of_collectives=True)
    for table in read_parts(inside, folder, None, without):
        ends = pc.and_(*(pc.greater_equal(table["end_ns"], span.start_ns),
                         pc.less_equal(table["end_ns"], span.end_ns)))  # fmt: skip
        reader.add(_without(table.filter(ends), addresses).to_pandas())
    return reader.result()


def _without(records: pa.Table, addresses: Collection[str]) -> pa.Table:
    if not addresses:
        return records
    values = pa.array([*addresses], pa.string())
    sides = [pc.is_in(records[side], value_set=values) for side in ("src", "dst")]
    return records.filter(pc.invert(pc.or_(*sides)))


def _inside(
    parts: Sequence[Part], folder: Path, span: Span, seen: Seen, without: Sequence[KnownJob]
) -> Iterator[pa.Table]:
    for part, table in zip(parts, read_parts(parts, folder, None, without), strict=True):
        records = table.cast(SCHEMA)
        if without:
            first, last = max(part.first_ns, span.start_ns), min(part.last_ns, span.end_ns)
            seen.recorded_ns = min(seen.recorded_ns[0], first), max(seen.recorded_ns[1], last)
        begins = pc.greater_equal(records["start_ns"], span.start_ns)
        records = records.filter(pc.and_(begins, pc.less_equal(records["end_ns"], span.end_ns)))
        seen.add(records)
        yield records


def read_parts(
    parts: Sequence[Part],
    folder: Path,
    columns: Sequence[str] | None,
    without: Sequence[KnownJob] = (),
) -> Iterator[pa.Table]:
    """Some columns of each part; where it is divided, not the records of the jobs ``without``."""
    marks = {one.mark for one in without}
    for part in parts:
        with pq.ParquetFile(folder / part.name) as file:
            count = file.num_row_groups
            groups = part.groups if len(part.groups) == count else [""] * count
            needed = [place for place, mark in enumerate(groups) if mark not in marks]
            yield file.read_row_groups(needed, columns=columns and [*columns])
