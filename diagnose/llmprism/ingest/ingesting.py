"""The whole of an ingest: sources in, a flow table out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from llmprism.ingest import readers
from llmprism.ingest.merging import TimeOrder
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.points import SeveralPoints
from llmprism.ingest.records import OPTIONAL, SCHEMA
from llmprism.ingest.repetitions import Repetitions
from llmprism.ingest.screening import screen
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import each_once
from llmprism.ingest.writing import Seen, write_flows
from prism_common.errors import Problem, UserError
from prism_common.scratch import working_folder

Progress = Callable[[float, str], None]
"""Called with the fraction done, in [0, 1], and what is being done."""

_READING = 0.8  # of the time, about
NO_TELEMETRY = "file of a folder that is no telemetry"


@dataclass(frozen=True)
class Ingested:
    """A written flow table: what happened, and what its records show."""

    notes: Notes
    seen: Seen


def ingest(
    sources: Sequence[Source],
    target: Path,
    options: Options,
    reader: str | None = None,
    metadata: dict[str, str] | None = None,
    progress: Progress | None = None,
    notes: Notes | None = None,
) -> Ingested:
    """Read all sources and write one flow table in order of time.

    Raises
    ------
    UserError : if a file cannot be opened, or its format is not known.
    """
    notes = Notes() if notes is None else notes
    progress = progress or _silent
    batches = records_of(sources, options, notes, reader, progress)
    return write_in_order(batches, target, options, notes, metadata, progress)


def records_of(
    sources: Sequence[Source],
    options: Options,
    notes: Notes,
    reader: str | None = None,
    progress: Progress | None = None,
) -> Iterator[pa.Table]:
    """Return the records of all sources as they come: screened, with their observation points.

    Raises
    ------
    UserError : if a file cannot be opened, or its format is not known.
    """
    return _read(_readers(sources, reader, notes), options, notes, progress or _silent)


def write_in_order(
    batches: Iterable[pa.Table],
    target: Path,
    options: Options,
    notes: Notes,
    metadata: dict[str, str] | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Write batches as one flow table in order of time, each record once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with working_folder(target) as folder:
        order = TimeOrder(folder)
        columns: set[str] = set()
        points: Counter[str | None] = Counter()
        for table in batches:
            columns |= {name for name in OPTIONAL if table[name].null_count < table.num_rows}
            points.update(table["observer"].unique().to_pylist())
            order.add(table)
        ordered = Repetitions(options.tolerance_ns, notes).without(order.merged())
        if len(points) > 1:
            columns.add("path")
            ordered = SeveralPoints(options.tolerance_ns, notes, options.homes).join(ordered)
        ordered = _reported(ordered, max(order.rows, 1), progress or _silent)
        seen = write_flows(ordered, target, notes, metadata or {}, columns)
    return Ingested(notes, seen)


def _silent(_fraction: float, _doing: str) -> None:
    """Report progress to nobody."""


def _readers(
    sources: Sequence[Source], name: str | None, notes: Notes
) -> list[tuple[Source, readers.Reader]]:
    """Return the reader of each source; all that have none are reported at once.

    A folder may hold other files as well: they are set aside, if any of its files can be read.
    """
    chosen = []
    problems: list[Problem] = []
    others: list[Source] = []
    for source in sources:
        try:
            reader = readers.get(name) if name else readers.recognise(source)
            chosen.append((source, reader))
        except UserError as error:
            problems += error.problems if not name else error.problems[: not problems]
            others += [] if source.is_named else [source]
    if problems and (len(others) < len(problems) or not chosen):
        raise UserError(problems)
    notes.drop(NO_TELEMETRY, len(others))
    for source in others:
        notes.remark(f"{source}: not read, its format is not recognised")
    if not sources:
        raise UserError(Problem("there are no files to read", "", "name a file, folder or glob"))
    return chosen


def _read(
    chosen: list[tuple[Source, readers.Reader]], options: Options, notes: Notes, progress: Progress
) -> Iterator[pa.Table]:
    """Yield the records of all sources, screened, with the names of observation points."""
    total = sum(source.size for source, _ in chosen) or 1
    before = 0
    for source, reader in chosen:
        doing = f"reading {source.path.name}"
        progress(_READING * before / total, doing)
        empty = True
        for table in reader.read(source, options, notes):
            progress(_READING * min(1.0, (before + source.place) / total), doing)
            empty &= not table.num_rows
            kept = screen(table, options, notes)
            if kept.num_rows:
                yield _named(kept, source, options, notes)
        before += source.size
        if empty:
            notes.remark(f"{source}: no flow records in it")


def _named(table: pa.Table, source: Source, options: Options, notes: Notes) -> pa.Table:
    """Give observation points the names the user gave; the file's where a source has none."""

    def name_of(observer: str | None) -> str:
        plain, mark, rest = (observer or source.label).partition("#")
        name = options.points.get(plain, plain) + mark + rest
        if observer:
            notes.named_points.add(name)
        return name

    column = each_once(table["observer"], name_of, pa.string())
    return table.set_column(SCHEMA.get_field_index("observer"), SCHEMA.field("observer"), column)


def _reported(batches: Iterator[pa.Table], total: int, progress: Progress) -> Iterator[pa.Table]:
    done = 0
    for table in batches:
        done += table.num_rows
        progress(
            _READING + (1 - _READING) * min(1.0, done / total), "writing records in order of time"
        )
        yield table
