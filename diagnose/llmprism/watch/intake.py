"""What becomes of records that a source hands over: kept, or counted by the reason why not.

A record that ends before the window of the next diagnosis is *late*. One that ends after the
present time of this machine's clock is *ahead*: an exporter's clock that jumps forward must not
move the window to a time that has not come. One that lasts longer than a window is *long*: no
window can have it. One of an exporter whose clock does not agree with those of the others is *out
of step*. A record between addresses of which the topology lacks one is *unknown*.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.ingesting import records_of
from llmprism.ingest.notes import Notes
from llmprism.ingest.options import Options
from llmprism.ingest.records import SCHEMA
from llmprism.ingest.sources import Source as File
from llmprism.io.nics import named_by_nic
from llmprism.io.topology import Topology
from llmprism.watch import exporters
from llmprism.watch.exporters import Arrival
from llmprism.watch.logging import reason_of
from llmprism.watch.settings import Settings
from llmprism.watch.state import State
from prism_common.errors import UserError

KEPT, LATE, AHEAD, UNKNOWN, SET_ASIDE = "kept", "late", "ahead", "unknown", "set_aside"
LONG, OUT_OF_STEP = "long", "out_of_step"
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
