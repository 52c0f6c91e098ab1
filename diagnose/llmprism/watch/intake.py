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
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.collectives.diagnosing import on_servers
from llmprism.collectives.operations import US
from llmprism.collectives.reading import Place, Reader, Records
from llmprism.ingest.ingesting import records_of
from llmprism.ingest.options import Options
from llmprism.ingest.records import SCHEMA
from llmprism.ingest.sources import BROKEN, paths_of
from llmprism.ingest.sources import Source as File
from llmprism.io.nics import named_by_nic
from llmprism.io.notes import Notes
from llmprism.io.topology import Topology
from llmprism.watch import exporters
from llmprism.watch.exporters import Arrival
from llmprism.watch.logging import LOGGER, reason_of
from llmprism.watch.settings import Settings
from llmprism.watch.state import State
from prism_common.errors import UserError
from prism_common.untrusted import LONGEST_LINE

KEPT, LATE, AHEAD, UNKNOWN, SET_ASIDE = "kept", "late", "ahead", "unknown", "set_aside"
LONG, OUT_OF_STEP = "long", "out_of_step"
_ROUND_S = 1.0  # of reading dumps; signals are looked at between
_OTHER = "other"  # key of files that are no dumps
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
    records : those to keep; of flows, or of collectives if there is no source of flows.
    beside : operations of collectives to keep beside flows.
    fates : numbers of records by what became of them.
    unread : files that could not be read, with the reason.
    latest_ns : time up to which exporters whose clocks agree have sent [ns]; None if none has.
    """

    records: pa.Table
    beside: pa.Table
    notes: Notes
    fates: Counter[str] = field(default_factory=Counter)
    unread: list[str] = field(default_factory=list)
    latest_ns: int | None = None

    @property
    def read(self) -> int:
        """Number of records that came."""
        return sum(self.fates.values())

    @property
    def refused(self) -> int:
        """Number of records that are no use, for a reason that can be corrected."""
        return sum(self.fates[fate] for fate in _REASONS)

    @property
    def reason(self) -> str:
        """Why most of those are no use."""
        return _REASONS[max(_REASONS, key=lambda fate: self.fates[fate])]


def take_in(
    files: Sequence[File], operations: Records, topology: Topology, options: Options,
    settings: Settings, state: State,
) -> Intake:  # fmt: skip
    """Read files, and divide their records and operations into those to keep and the others."""
    notes, tables, unread = Notes(), [SCHEMA.empty_table()], []
    for file in files:
        try:
            tables += list(records_of([file], options, notes))
        except Exception as error:  # a reader's mistake costs one file, and not the monitor
            named = "" if isinstance(error, UserError) else f"{file}: "
            unread.append(named + reason_of(error))
    both = [named_by_nic(pa.concat_tables(tables), topology), as_records(operations, topology)]
    first, second = both if settings.has_flows else reversed(both)
    fates = Counter({SET_ASIDE: sum(notes.set_aside.values())})
    known, kept = _divided(first, topology, settings, state, fates)
    beside = _divided(second, topology, settings, state, fates)[1]
    count = kept.num_rows
    kept, latest_ns = _in_step(kept, exporters.arrivals(known), settings, state, time.time_ns())
    fates += Counter({KEPT: kept.num_rows + beside.num_rows, OUT_OF_STEP: count - kept.num_rows})
    return Intake(kept, beside, notes, fates, unread, latest_ns)


def _divided(
    records: pa.Table, topology: Topology, settings: Settings, state: State, fates: Counter[str]
) -> tuple[pa.Table, pa.Table]:
    """Records between known addresses, and those of them to keep; the others are counted."""
    start, end = (records[name].to_numpy() for name in ("start_ns", "end_ns"))
    known = pa.array(topology.addresses, pa.string())
    is_known = pc.and_(*(pc.is_in(records[name], value_set=known) for name in ("src", "dst")))
    since_ns = -np.inf if state.cursor_ns is None else state.cursor_ns - settings.window_ns
    reasons = {
        UNKNOWN: ~is_known.to_numpy(),
        AHEAD: np.maximum(start, end) > time.time_ns() + settings.ahead_ns,
        LONG: end - start > settings.window_ns,
        LATE: end < since_ns,
    }
    keep = np.ones(start.size, np.bool_)
    for reason, mask in reasons.items():
        fates[reason] += int(np.count_nonzero(mask & keep))
        keep &= ~mask
    return records.filter(is_known), records.filter(pa.array(keep))


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
    """What is new in a folder of dumps.

    Files grow, and lines are read as they come. A file is known by its first line, so one that is
    renamed, copied or compressed is not read again.
    """

    def __init__(self) -> None:
        self._known: dict[Path, tuple[object, str]] = {}  # as each was when all was read; its key

    def take(
        self, folder: Path, places: Mapping[str, Any], is_end: bool
    ) -> tuple[Records, dict[str, Any]]:
        """The operations behind known places, and the places behind them, by the first line.

        All are read if it ``is_end``, and those of a round otherwise.

        Raises
        ------
        OSError : the folder cannot be read.
        """
        until_s = math.inf if is_end else time.monotonic() + _ROUND_S
        reader, found, known = Reader(), dict(places), {}
        next(folder.iterdir(), None)  # a folder that is gone is an error, and not empty
        for path in paths_of(str(folder)):
            with suppress(FileNotFoundError):  # renamed meanwhile
                before = self._known.get(path, (None, ""))
                known[path] = _read_on(path, before, reader, found, until_s)
        self._known = known
        keys = {key for _, key in known.values()}
        gone = found.keys() - keys if "" not in keys else set()  # unless not all were looked at
        return reader.result(), {key: found[key] for key in found.keys() - gone}


def _read_on(
    path: Path, known: tuple[object, str], reader: Reader, places: dict[str, Any], until_s: float
) -> tuple[object, str]:
    """Read what is new in a file; return how it is now, and its key among ``places``."""
    found = path.stat()
    stamp = found.st_ino, found.st_size, found.st_mtime_ns
    if stamp == known[0] or time.monotonic() > until_s:
        return known
    try:
        with File(path).open() as stream:
            first = stream.readline(LONGEST_LINE + 1)
            if first.startswith(b"{") and first.endswith(b"\n"):
                key = blake2b(first, digest_size=16).hexdigest()
                places[key] = reader.read_on(stream, Place(*places.get(key, ())), until_s)
                return (stamp if time.monotonic() < until_s else None), key
        what = "no lines of NCCL or RCCL Inspector" if first.endswith(b"\n") else ""
        what = what if len(first) <= LONGEST_LINE else "its first line has no end"
    except EOFError:  # compressed, and its first line is not complete
        what = ""
    except (*BROKEN, UserError) as error:
        what = reason_of(error)
    if what and known[1] != _OTHER:
        LOGGER.warning("%s is passed over: %s", path, what)
    return stamp, _OTHER if what else ""


def as_records(operations: Records, topology: Topology) -> pa.Table:
    """Operations as records that hosts export, from the first NIC of a server to itself."""
    rows, processes = operations.rows, on_servers(operations, topology).processes
    first = {end.server: end.address for end in reversed(topology.endpoints)}
    home = pa.array([first.get(one.host) for one in processes], pa.string())
    home = home.take(pa.array(rows["process"]))
    table, end_ns = operations.table(), rows["end_us"] * US
    start_ns = end_ns - (rows["exec_us"] * US).astype(np.int64)
    columns = {"start_ns": start_ns, "end_ns": end_ns, "src": home, "dst": home}
    own = dict(zip(table.column_names, table.columns, strict=True))
    return pa.table({**columns, "observer": own["host"], **own})
