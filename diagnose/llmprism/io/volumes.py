"""The volume of every pair of addresses in a file that is too large for memory.

The file is read once, part by part. Records that would be set aside in a diagnosis do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from llmprism.io.columns import endpoint_codes, numbers
from llmprism.io.flows import Intake, Rest, intake_of, notes_of, sampling_of
from llmprism.io.loading import NAMES, REQUIRED, StoredRecords
from llmprism.io.screening import faults, null_rows
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Array, Bools, Codes, Floats, Ints

_COLUMNS = (*REQUIRED, *NAMES)


@dataclass(frozen=True)
class PairVolumes:
    """What each directed pair of addresses exchanges, arrays of shape (pairs,).

    Attributes
    ----------
    src, dst : endpoint codes.
    bytes, records : sums over all records.
    recorded_ns : first start and last end of all records [ns]; zeros without any.
    """

    src: Codes
    dst: Codes
    bytes: Floats
    records: Ints
    recorded_ns: tuple[int, int]

    @property
    def rest(self) -> Rest:
        """What any part of these records has to know of the others."""
        return Rest(self.recorded_ns, np.flatnonzero(np.bincount(self.src)))


def read_volumes(
    records: StoredRecords, topology: Topology, progress: Callable[[float], None]
) -> tuple[PairVolumes, Intake]:
    """Read ``records`` once, add them up by pairs, and count those that are set aside.

    Repetitions are not counted. ``progress`` gets the fraction done.

    Raises
    ------
    UserError : the file is damaged.
    """
    sampling = sampling_of(notes_of(records.notes))
    nodes = len(topology.endpoints)
    sums: list[_Sums] = []
    times_ns: list[int] = []
    set_aside: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    done = 0
    for part in records.parts(_COLUMNS):
        done += part.num_rows
        columns, counts = _sound(part, topology, sampling, unknown)
        del part
        set_aside.update(counts)
        if columns["src"].size:
            times_ns += int(columns["start_ns"].min()), int(columns["end_ns"].max())
        sums.append(_by_pair(columns, nodes))
        del columns
        if sum(one["pair"].size for one in sums[1:]) >= sums[0]["pair"].size:
            sums = [_added_up(sums)]
        progress(done / records.rows)
    recorded_ns = min(times_ns, default=0), max(times_ns, default=0)
    volumes = _volumes(_added_up(sums), nodes, recorded_ns)
    return volumes, intake_of(records.rows, dict(set_aside), unknown)


def _sound(
    part: pa.Table, topology: Topology, sampling: float, unknown: Counter[str]
) -> tuple[dict[str, Array], dict[str, int]]:
    """The columns of ``part``, without records that are set aside, and the counts of these."""
    columns: dict[str, Array] = {name: numbers(part[name]) for name in REQUIRED}
    columns |= {name: endpoint_codes(part[name], topology, unknown) for name in NAMES}
    null = null_rows([part[name] for name in REQUIRED])
    bad, counts = faults(null, columns, topology.fastest_gbps, sampling)
    return {name: column[~bad] for name, column in columns.items()}, counts


_Sums = dict[str, Array]
"""What pairs exchange: ``pair``, ``bytes`` and ``records``, each of shape (pairs,)."""


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
    return np.concatenate([one.pop(name) for one in tables])


def _volumes(sums: _Sums, nodes: int, recorded_ns: tuple[int, int]) -> PairVolumes:
    pair = sums.pop("pair")
    src, dst = (pair // nodes).astype(np.int32), (pair % nodes).astype(np.int32)
    return PairVolumes(src, dst, **sums, recorded_ns=recorded_ns)


JoiningPairs = Callable[[PairVolumes, Topology], Bools]
"""Which pairs may belong to one job, so that their records have to be diagnosed together."""
