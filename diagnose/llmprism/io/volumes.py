"""The volume of every pair of addresses in a file that is too large for memory.

The file is read once, part by part. Records that would be set aside in a diagnosis do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from llmprism.io.columns import endpoint_codes, numbers
from llmprism.io.flows import Intake, Rest, intake_of, notes_of, sampling_of
from llmprism.io.loading import NAMES, REQUIRED, StoredRecords
from llmprism.io.screening import faults, null_rows
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Array, Bools, Codes, Floats, Ints

_COLUMNS = (*REQUIRED, *NAMES)
_HELD = 32  # parts whose pairs are kept apart before they are added up


@dataclass(frozen=True)
class PairVolumes:
    """What each directed pair of addresses exchanges, arrays of shape (pairs,).

    Attributes
    ----------
    src, dst : endpoint codes.
    bytes, records : sums over all records.
    first_ns, last_ns : first start and last end [ns].
    """

    src: Codes
    dst: Codes
    bytes: Floats
    records: Ints
    first_ns: Ints
    last_ns: Ints

    @property
    def rest(self) -> Rest:
        """What any part of these records has to know of the others."""
        recorded_ns = (0, 0)
        if self.src.size:
            recorded_ns = int(self.first_ns.min()), int(self.last_ns.max())
        return Rest(recorded_ns, np.unique(self.src))


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
    held: list[pd.DataFrame] = []
    set_aside: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    done = 0
    for part in records.parts(_COLUMNS):
        done += part.num_rows
        columns, counts = _sound(part, topology, sampling, unknown)
        set_aside.update(counts)
        held.append(_by_pair(columns))
        if len(held) > _HELD:
            held = [_added_up(held)]
        progress(done / records.rows)
    every = _added_up(held)
    ends = divmod(every.index.to_numpy(np.int64), len(topology.endpoints))
    src, dst = (codes.astype(np.int32) for codes in ends)
    volumes = PairVolumes(src, dst, *(every[name].to_numpy() for name in _SUMS))
    return volumes, intake_of(records.rows, dict(set_aside), unknown)


def _sound(
    part: pa.Table, topology: Topology, sampling: float, unknown: Counter[str]
) -> tuple[dict[str, Array], dict[str, int]]:
    """The columns of ``part``, without records that are set aside, and the counts of these."""
    columns: dict[str, Array] = {name: numbers(part[name]) for name in REQUIRED}
    columns |= {name: endpoint_codes(part[name], topology, unknown) for name in NAMES}
    null = null_rows([part[name] for name in REQUIRED])
    bad, counts = faults(null, columns, topology.fastest_gbps, sampling)
    columns = {name: column[~bad] for name, column in columns.items()}
    nodes = len(topology.endpoints)
    columns["pair"] = columns["src"].astype(np.int64) * nodes + columns["dst"]
    return columns, counts


_SUMS: dict[str, tuple[str, Any]] = {
    "bytes": ("bytes", "sum"),
    "records": ("records", "sum"),
    "first_ns": ("first_ns", "min"),
    "last_ns": ("last_ns", "max"),
}


def _by_pair(columns: dict[str, Array]) -> pd.DataFrame:
    one = np.ones(columns["pair"].size, np.int64)
    table = pd.DataFrame(
        {
            "pair": columns["pair"],
            "bytes": columns["bytes"].astype(np.float64),
            "records": one,
            "first_ns": columns["start_ns"],
            "last_ns": columns["end_ns"],
        },
        copy=False,
    )
    return table.groupby("pair", sort=False).agg(**_SUMS)


def _added_up(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables).groupby(level=0, sort=True).agg(**_SUMS)


JoiningPairs = Callable[[PairVolumes, Topology], Bools]
"""Which pairs may belong to one job, so that their records have to be diagnosed together."""
