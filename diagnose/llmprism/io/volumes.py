"""The volume of every pair of addresses in a file that is too large for memory.

The file is read part by part. Records that would be set aside in a diagnosis do not count. Where
nothing circulates, there may be as many pairs as records, and none may belong to a job: they are
not added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from llmprism.cluster import Map, in_turn
from llmprism.io.clock import clock_tick_ns
from llmprism.io.columns import endpoint_codes, numbers
from llmprism.io.flows import Intake, Rest, intake_of, notes_of, sampling_of
from llmprism.io.loading import NAMES, REQUIRED, StoredRecords
from llmprism.io.screening import faults, null_rows
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Array, Bools, Codes, Floats, Ints
from llmprism.numerics.independence import nothing_circulates

_COLUMNS = (*REQUIRED, *NAMES)


@dataclass(frozen=True)
class PairVolumes:
    """What each directed pair of addresses exchanges, arrays of shape (pairs,).

    Attributes
    ----------
    src, dst : endpoint codes.
    bytes, records : sums over all records.
    """

    src: Codes
    dst: Codes
    bytes: Floats
    records: Ints


def read_volumes(
    records: StoredRecords,
    topology: Topology,
    progress: Callable[[float], None],
    each: Map = in_turn,
) -> tuple[PairVolumes, Rest, Intake]:
    """Add ``records`` up by pairs, and count those that are set aside.

    No pairs are returned if nothing circulates in any part. Repetitions are not counted.
    ``progress`` gets the fraction done, and ``each`` does the work on each part. Also returns what
    parts of the records have to know of all.

    Raises
    ------
    UserError : the file is damaged.
    """
    circulates = any(not _independent(one) for one in _coded(records, topology, Counter()))
    nodes = len(topology.endpoints)
    sums: list[_Sums] = []
    times_ns: list[int] = []
    sends = np.zeros(nodes, np.bool_)
    set_aside: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    done = 0
    for part in each(partial(_summed, nodes, circulates), _coded(records, topology, unknown)):
        set_aside.update(part.set_aside)
        done += part.rows
        times_ns += part.times_ns
        sends[part.senders] = True
        sums.append(part.sums)
        if sum(one["pair"].size for one in sums[1:]) >= sums[0]["pair"].size:
            sums = [_added_up(sums)]
        progress(done / records.rows)
    recorded_ns = min(times_ns, default=0), max(times_ns, default=0)
    rest = Rest(recorded_ns, np.flatnonzero(sends).astype(np.int32))
    return _volumes(_added_up(sums), nodes), rest, intake_of(records.rows, dict(set_aside), unknown)


@dataclass(frozen=True)
class _Coded:
    """Columns of a part of the records, with ``null`` rows; the limits of what is possible."""

    columns: dict[str, Array]
    null: Bools
    fastest_gbps: float
    sampling: float

    def sound(self) -> tuple[dict[str, Array], dict[str, int]]:
        """The columns without records that are set aside, and the counts of these."""
        bad, counts = faults(self.null, self.columns, self.fastest_gbps, self.sampling)
        return {name: column[~bad] for name, column in self.columns.items()}, counts


_Sums = dict[str, Array]
"""What pairs exchange: ``pair``, ``bytes`` and ``records``, each of shape (pairs,)."""


@dataclass(frozen=True)
class _Part:
    """A part of the records, added up."""

    rows: int
    set_aside: dict[str, int]
    times_ns: tuple[int, ...]
    senders: Codes
    sums: _Sums


def _coded(records: StoredRecords, topology: Topology, unknown: Counter[str]) -> Iterator[_Coded]:
    """Each part, with numbers for addresses; those of unknown ones are counted."""
    sampling = sampling_of(notes_of(records.notes))
    for part in records.parts(_COLUMNS):
        columns: dict[str, Array] = {name: numbers(part[name]) for name in REQUIRED}
        columns |= {name: endpoint_codes(part[name], topology, unknown) for name in NAMES}
        null = null_rows([part[name] for name in REQUIRED])
        del part
        yield _Coded(columns, null, topology.fastest_gbps, sampling)


def _summed(nodes: int, circulates: bool, part: _Coded) -> _Part:
    """Add a part up, by pairs only if anything ``circulates``."""
    columns, counts = part.sound()
    rows, src = part.null.size, columns["src"]
    times_ns = (int(columns["start_ns"].min()), int(columns["end_ns"].max())) if src.size else ()
    sums = _by_pair(columns, nodes) if circulates else _added_up([])
    return _Part(rows, counts, times_ns, np.unique(src), sums)


def _independent(part: _Coded) -> bool:
    columns, _ = part.sound()
    start_ns = columns["start_ns"]
    return nothing_circulates(start_ns, columns["src"], columns["dst"], clock_tick_ns(start_ns))


def _by_pair(columns: dict[str, Array], nodes: int) -> _Sums:
    pair = columns["src"].astype(np.int64) * nodes + columns["dst"]
    size = columns["bytes"].astype(np.float64)
    return _added_up([{"pair": pair, "bytes": size, "records": np.ones(pair.size, np.int64)}])


def _added_up(tables: list[_Sums]) -> _Sums:
    """One row for each pair of all ``tables``, in the order of pairs; empties the tables.

    Where most pairs have one record, the sums are as large as the records, so the columns are
    added up one after the other.
    """
    pair = _taken("pair", tables)
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    opens = np.flatnonzero(np.concatenate((pair[:1] >= 0, pair[1:] != pair[:-1])))
    sums = {"pair": pair[opens]}
    del pair
    for name in ("bytes", "records"):
        values = _taken(name, tables)[order]
        sums[name] = np.add.reduceat(values, opens) if opens.size else values
    return sums


def _taken(name: str, tables: list[_Sums]) -> Array:
    """The column ``name`` of all ``tables``, which lose it."""
    return np.concatenate([one.pop(name) for one in tables] or [np.zeros(0, np.int64)])


def _volumes(sums: _Sums, nodes: int) -> PairVolumes:
    pair = sums.pop("pair")
    src, dst = (pair // nodes).astype(np.int32), (pair % nodes).astype(np.int32)
    return PairVolumes(src, dst, **sums)


JoiningPairs = Callable[[PairVolumes, Topology], Bools]
"""Which pairs may belong to one job, so that their records have to be diagnosed together."""
