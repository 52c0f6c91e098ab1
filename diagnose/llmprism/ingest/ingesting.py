"""The whole of an ingest: sources in, a flow table out.

Records that no flow table can hold are set aside, counted by reason. The diagnoser screens again
with what the topology knows (:mod:`llmprism.io.screening`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest import readers
from llmprism.ingest.bounds import EARLIEST_NS, LARGEST
from llmprism.ingest.options import UNITS_NS, Options
from llmprism.ingest.points import Repetitions, SeveralPoints
from llmprism.ingest.records import OPTIONAL, SCHEMA
from llmprism.ingest.sources import Source
from llmprism.ingest.tables import each_once
from llmprism.ingest.writing import Seen, TimeOrder, write_flows
from llmprism.io.notes import Notes
from llmprism.numerics.arrays import Bools, Ints
from prism_common.errors import Problem, UserError
from prism_common.progress import Progress, silent
from prism_common.quantities import LONE, lone_times
from prism_common.scratch import working_folder

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
    progress = progress or silent
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
    return _read(_readers(sources, reader, notes), options, notes, progress or silent)


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
        ordered = _reported(ordered, max(order.rows, 1), progress or silent)
        seen = write_flows(ordered, target, notes, metadata or {}, columns)
    return Ingested(notes, seen)


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


OUTSIDE = "outside the time asked for"
TUNNELS = {4789: "VXLAN", 8472: "VXLAN", 6081: "GENEVE"}
"""UDP ports of overlays: a switch sees their outer headers only."""
_UDP = 17


def screen(table: pa.Table, options: Options, notes: Notes) -> pa.Table:
    """Return the records that hold; count the others in ``notes``."""
    keep = np.ones(table.num_rows, dtype=np.bool_)
    start, end = _filled(table["start_ns"]), _filled(table["end_ns"])
    size = _filled(table["bytes"])
    reasons: dict[str, Bools] = {
        "no address, or one that cannot be read": _nulls(table, "src", "dst"),
        "no time, or one that cannot be read": _nulls(table, "start_ns", "end_ns"),
        "no size, or one that cannot be read": _nulls(table, "bytes"),
        "time or size beyond 2^61": (np.abs(start) > LARGEST)
        | (np.abs(end) > LARGEST)
        | (size > LARGEST),
        "ends before it starts": end < start,
        "negative size": size < 0,
        OUTSIDE: _outside(start, options),
    }
    for reason, bad in (*reasons.items(), (LONE, None)):
        bad = _is_lone(start, keep) if bad is None else bad
        notes.drop(reason, int(np.count_nonzero(bad & keep)))
        keep &= ~bad
    table = table if keep.all() else table.filter(pa.array(keep))
    _remark_tunnels(table, notes)
    _remark_unit(table, notes)
    return table


def _is_lone(start: Ints, keep: Bools) -> Bools:
    """Whether records start far from all others of the same table."""
    known = start[keep]
    is_long = known.size and np.ptp(known) > 86_400 * UNITS_NS["s"]
    return np.isin(start, [*lone_times(np.unique(known).tolist() if is_long else ())])


def _remark_unit(table: pa.Table, notes: Notes) -> None:
    """Say so if times are before 1990, and would be those of a wall clock in a larger unit."""
    starts = _filled(table["start_ns"])
    middle = float(np.median(starts)) if starts.size else 0.0
    for factor in (1_000, 1_000_000, 1_000_000_000):
        if 0 < middle < EARLIEST_NS <= middle * factor <= LARGEST:
            notes.remark(
                f"times are before 1990; in a unit that is {factor:,} times as long they would be "
                f"of {np.datetime64(int(middle * factor), 'ns').astype('datetime64[Y]')}: name the "
                "unit with --time-unit, and the columns with --map, if their names say another"
            )


def _remark_tunnels(table: pa.Table, notes: Notes) -> None:
    """Say whose addresses the records of an overlay have."""
    is_udp = pc.fill_null(pc.equal(table["protocol"], _UDP), False)
    ports = table["dst_port"].filter(is_udp).unique().to_pylist()
    for name in sorted({TUNNELS[port] for port in ports if port in TUNNELS}):
        notes.remark(
            f"{name}: records have the addresses of the ends of tunnels, so the topology must list "
            "those, and all that one tunnel carries is one pair; for the addresses inside, record "
            "on the hosts, where packets enter the tunnel"
        )


def _filled(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    values: np.ndarray[tuple[int], np.dtype[np.int64]] = pc.fill_null(column, 0).to_numpy()
    return values


def _nulls(table: pa.Table, *names: str) -> Bools:
    bad = np.zeros(table.num_rows, dtype=np.bool_)
    for name in names:
        bad |= table[name].is_null().to_numpy()
    return bad


def _outside(start: np.ndarray[tuple[int], np.dtype[np.int64]], options: Options) -> Bools:
    bad = np.zeros(start.size, dtype=np.bool_)
    if options.from_ns is not None:
        bad |= start < max(-LARGEST, min(options.from_ns, LARGEST))
    if options.to_ns is not None and options.to_ns <= LARGEST:
        bad |= start >= max(-LARGEST, options.to_ns)
    return bad
