"""What becomes of records that a source hands over: kept, or counted by the reason why not.

A record that ends before the window of the next diagnosis is *late*. One that starts long after
this machine's clock is *ahead*: an exporter's clock that jumps forward must not move the window
to a time that has not come. A record between addresses of which the topology lacks one is
*unknown*.
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
from llmprism.io.topology import Topology
from llmprism.watch.settings import Settings
from llmprism.watch.state import State
from prism_common.errors import UserError

KEPT, LATE, AHEAD, UNKNOWN, SET_ASIDE = "kept", "late", "ahead", "unknown", "set_aside"


@dataclass
class Intake:
    """Records that came together.

    Attributes
    ----------
    records : those to keep.
    fates : numbers of records by what became of them.
    unread : files that could not be read, with the reason.
    """

    records: pa.Table
    notes: Notes
    fates: dict[str, int] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @property
    def read(self) -> int:
        """Number of records that came."""
        return sum(self.fates.values())

    @property
    def refused(self) -> int:
        """Number of records that are no use, for a reason that can be mended."""
        return sum(self.fates.get(fate, 0) for fate in (AHEAD, UNKNOWN, SET_ASIDE))


def take_in(
    files: Sequence[File], topology: Topology, options: Options, settings: Settings, state: State
) -> Intake:
    """Read files, and divide their records into those to keep and the others."""
    notes, tables, unread = Notes(), [], []
    for file in files:
        try:
            tables += list(records_of([file], options, notes))
        except UserError as error:
            unread.append(str(error.problems[0]).partition("\n")[0])
    records = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    start, end = (records[name].to_numpy() for name in ("start_ns", "end_ns"))
    known = pa.array(topology.addresses, pa.string())
    is_known = pc.and_(*(pc.is_in(records[name], value_set=known) for name in ("src", "dst")))
    reasons = {
        UNKNOWN: ~is_known.to_numpy(),
        AHEAD: start > time.time_ns() + settings.ahead_ns,
        LATE: np.zeros(start.size, np.bool_)
        if state.cursor_ns is None
        else end < state.cursor_ns - settings.window_ns,
    }
    fates = {SET_ASIDE: sum(notes.set_aside.values())}
    keep = np.ones(start.size, np.bool_)
    for reason, mask in reasons.items():
        fates[reason] = int(np.count_nonzero(mask & keep))
        keep &= ~mask
    kept = records.filter(pa.array(keep))
    return Intake(kept, notes, {KEPT: kept.num_rows, **fates}, unread)
