"""The records of the last window, as files in the order in which they came.

A part has the records that were taken together, as their readers gave them. The window is made from
all parts that reach into it as one ingest makes a flow table: in order of time, each record once,
even if several switches saw it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from llmprism.ingest.ingesting import write_in_order
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.records import SCHEMA
from llmprism.watch.settings import Settings
from llmprism.watch.state import Part, State, force_names

_CUTS = ("idle_gap_ns", "active_timeout_ns")


@dataclass(frozen=True)
class Span:
    """A stretch of time, from ``start_ns`` up to ``end_ns`` [ns]."""

    start_ns: int
    end_ns: int


def write_part(records: pa.Table, notes: Notes, folder: Path, name: str) -> Part:
    """Write records as a part, and force it to the disk."""
    path = folder / name
    with path.open("wb") as file:
        pq.write_table(records, file, compression="zstd", store_schema=False)
        file.flush()
        os.fsync(file.fileno())
    force_names(folder)
    cuts = {cut: sorted(getattr(notes, cut)) for cut in _CUTS}
    first, last = pc.min(records["start_ns"]).as_py(), pc.max(records["end_ns"]).as_py()
    return Part(name, records.num_rows, int(first), int(last), cuts)


def next_span(state: State, settings: Settings, is_last: bool) -> Span | None:
    """The next window; None if the records have not advanced by a stride.

    The first one is as long as the pause between two diagnoses, at least. A monitor that is behind
    moves by half a window, so that each record is in two windows. Where no record is for a while,
    the window moves to the next one. The last window of all need not be a stride ahead.
    """
    if state.watermark_ns is None or not state.parts:
        return None
    window_ns, least_ns = settings.window_ns, settings.stride_ns
    if state.cursor_ns is None:
        least_ns = settings.pause_ns
        begin_ns = min(part.first_ns for part in state.parts)
        end_ns = min(state.watermark_ns, begin_ns + window_ns)
    else:
        later = [part.first_ns for part in state.parts if part.last_ns > state.cursor_ns]
        begin_ns = max(min(later, default=state.cursor_ns), state.cursor_ns)
        end_ns = min(state.watermark_ns, begin_ns + window_ns // 2)
    advanced = end_ns - (begin_ns if state.cursor_ns is None else state.cursor_ns)
    if advanced < (1 if is_last else least_ns):
        return None
    return Span(end_ns - window_ns, end_ns)


@dataclass
class Seen:
    """What the records of a window show before any are left out.

    Attributes
    ----------
    recorded_ns : when the first one begins, and when the last one ends [ns].
    senders : addresses that send.
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
    without: Collection[str] = (),
) -> Seen:
    """Write the records that start in a window as a flow table, in bounded memory.

    Those from or to addresses that are to be left out (``without``) are not written.
    """
    seen = Seen()
    inside = [one for one in parts if one.last_ns > span.start_ns and one.first_ns <= span.end_ns]
    notes = Notes()
    for part in inside:
        for cut in _CUTS:
            getattr(notes, cut).update(part.notes.get(cut, []))
    tables = _inside(inside, folder, span, seen)
    write_in_order((_without(one, without) for one in tables), target, options, notes)
    return seen


def _without(records: pa.Table, addresses: Collection[str]) -> pa.Table:
    if not addresses:
        return records
    values = pa.array([*addresses], pa.string())
    sides = [pc.is_in(records[side], value_set=values) for side in ("src", "dst")]
    return records.filter(pc.invert(pc.or_(*sides)))


def _inside(parts: Sequence[Part], folder: Path, span: Span, seen: Seen) -> Iterator[pa.Table]:
    for part in parts:
        records = pq.read_table(folder / part.name).cast(SCHEMA)
        start = records["start_ns"]
        inside = pc.and_(pc.greater_equal(start, span.start_ns), pc.less(start, span.end_ns))
        records = records.filter(inside)
        seen.add(records)
        yield records


def read_parts(parts: Sequence[Part], folder: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Some columns of each part."""
    return (pq.read_table(folder / one.name, columns=[*columns]) for one in parts)
