"""What becomes of records that a source hands over: kept, or counted by the reason why not.

A record that ends before the window of the next diagnosis is *late*. One that ends after the
present time of this machine's clock is *ahead*: an exporter's clock that jumps forward must not
move the window to a time that has not come. One that lasts longer than a window is *long*: no
window can have it. One of an exporter whose clock does not agree with those of the others is *out
of step*. A record between addresses of which the topology lacks one is *unknown*.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from llmprism.collectives.operations import US
from llmprism.collectives.reading import Place, Reader, Records, files_of
from llmprism.ingest.ingesting import records_of
from llmprism.ingest.options import Options
from llmprism.ingest.records import SCHEMA
from llmprism.ingest.sources import Source as File
from llmprism.io.nics import named_by_nic
from llmprism.io.notes import Notes
from llmprism.io.topology import Topology
from llmprism.watch import exporters
from llmprism.watch.exporters import Arrival
from llmprism.watch.logging import reason_of
from llmprism.watch.settings import Settings
from llmprism.watch.state import State
from llmprism.watch.window import Span
from prism_common.errors import UserError

KEPT, LATE, AHEAD, UNKNOWN, SET_ASIDE = "kept", "late", "ahead", "unknown", "set_aside"
LONG, OUT_OF_STEP = "long", "out_of_step"
_ROUND_S = 1.0  # of reading dumps; signals are looked at between
_REASONS = {
    UNKNOWN: "between addresses that the topology does not have",
    AHEAD: "ahead of this machine's clock",
    LONG: "longer than a window",
    OUT_OF_STEP: "of exporters whose clocks are wrong",
    SET_ASIDE: "impossible, or cannot be read",
}
"""The fates of records that are no use, in words."""


@dataclass
class Intake:
    """Records that came together.

    Attributes
    ----------
    records : those to keep.
    fates : numbers of records by what became of them.
    unread : files that could not be read, with the reason.
    latest_ns : time up to which exporters whose clocks agree have sent [ns]; None if none has.
    """

    records: pa.Table
    notes: Notes
    fates: dict[str, int] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    latest_ns: int | None = None

    @property
    def read(self) -> int:
        """Number of records that came."""
        return sum(self.fates.values())

    @property
    def refused(self) -> int:
        """Number of records that are no use, for a reason that can be corrected."""
        return sum(self.fates.get(fate, 0) for fate in _REASONS)

    @property
    def reason(self) -> str:
        """Why most of those are no use."""
        return _REASONS[max(_REASONS, key=lambda fate: self.fates.get(fate, 0))]


def take_in(
    files: Sequence[File], topology: Topology, options: Options, settings: Settings, state: State
) -> Intake:
    """Read files, and divide their records into those to keep and the others."""
    notes, tables, unread = Notes(), [], []
    for file in files:
        try:
            tables += list(records_of([file], options, notes))
        except Exception as error:  # a reader's mistake costs one file, and not the monitor
            named = "" if isinstance(error, UserError) else f"{file}: "
            unread.append(named + reason_of(error))
    records = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    records = named_by_nic(records, topology)
    start, end = (records[name].to_numpy() for name in ("start_ns", "end_ns"))
    now_ns = time.time_ns()
    known = pa.array(topology.addresses, pa.string())
    is_known = pc.and_(*(pc.is_in(records[name], value_set=known) for name in ("src", "dst")))
    reasons = {
        UNKNOWN: ~is_known.to_numpy(),
        AHEAD: np.maximum(start, end) > now_ns + settings.ahead_ns,
        LONG: end - start > settings.window_ns,
        LATE: np.zeros(start.size, np.bool_)
        if state.cursor_ns is None
        else end < state.cursor_ns - settings.window_ns,
    }
    fates = {SET_ASIDE: sum(notes.set_aside.values())}
    keep = np.ones(start.size, np.bool_)
    for reason, mask in reasons.items():
        fates[reason] = int(np.count_nonzero(mask & keep))
        keep &= ~mask
    came = exporters.arrivals(records.filter(pa.array(~reasons[UNKNOWN])))
    kept = records.filter(pa.array(keep))
    kept, latest_ns = _in_step(kept, came, settings, state, now_ns)
    fates[OUT_OF_STEP] = int(np.count_nonzero(keep)) - kept.num_rows
    return Intake(kept, notes, {KEPT: kept.num_rows, **fates}, unread, latest_ns)


def _in_step(
    records: pa.Table, came: dict[str, Arrival], settings: Settings, state: State, now_ns: int
) -> tuple[pa.Table, int | None]:
    """The records of exporters whose clocks agree, and the time up to which those have sent [ns].

    Takes note of all exporters in ``state``.
    """
    exporters.note(state, came, now_ns)
    found = exporters.clocks(state.exporters, settings, now_ns)
    exporters.count_disagreements(state, came, found)
    wrong = exporters.out_of_step(state, found)
    if wrong:
        records = records.filter(pa.array(~exporters.of_exporters(records, wrong)))
    ahead = found.ahead()
    moving = {name: one for name, one in exporters.arrivals(records).items() if name not in ahead}
    exporters.advance(state, moving, settings)
    return records, max((one.latest_ns for one in moving.values()), default=None)


class Dumps:
    """What a folder of dumps has shown so far; ``problem`` is why it cannot be read, or empty.

    Its files grow, and lines are read as they come. A file is known by its number in the file
    system, so one that is renamed is not read again; one that becomes shorter is, from its begin.
    """

    def __init__(self) -> None:
        self.problem = ""
        self._reader = Reader()
        self._places: dict[tuple[int, int], Place] = {}

    def take(self, folder: Path, is_end: bool) -> None:
        """Read the lines that are new: all if it ``is_end``, or those of a round."""
        until_s = math.inf if is_end else time.monotonic() + _ROUND_S
        places = {}
        try:
            next(folder.iterdir(), None)  # a folder that is gone is an error, and not empty
            for path in files_of(folder):
                found = path.stat()
                key = found.st_dev, found.st_ino
                place = self._places.get(key, Place())
                if place.offset != found.st_size:
                    place = place if place.offset < found.st_size else Place()
                    place = self._reader.read_on(path, place, until_s)
                places[key] = place
            self._places, self.problem = places, ""
        except OSError as error:
            self._places |= places
            self.problem = f"collectives cannot be read: {reason_of(error)}"

    def between(self, span: Span) -> Records:
        """The operations that end in a window; what ends before is forgotten."""
        records = self._reader.result()
        rows = records.rows[records.rows["end_us"] >= span.start_ns // US]
        self._reader.rows = bytearray(rows.tobytes())
        return _in_use(records, rows[rows["end_us"] <= span.end_ns // US])


def _in_use(records: Records, rows: NDArray[Any]) -> Records:
    """Some ``rows``, with the processes and communicators that they have."""
    members, names = records.members, (("process", "processes"), ("communicator", "communicators"))
    used: dict[str, Any] = {}
    for at, (kind, every) in enumerate(names):
        codes, rows[kind] = np.unique(rows[kind], return_inverse=True)
        used[every] = [getattr(records, every)[code] for code in codes.tolist()]
        members = members[np.isin(members[:, at], codes)]
        members[:, at] = np.searchsorted(codes, members[:, at])
    return replace(records, rows=rows, members=members, **used)
