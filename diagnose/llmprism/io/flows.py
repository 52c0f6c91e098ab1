"""The flow table: the collector's records, checked and converted to arrays.

Columns are checked when they are loaded (:mod:`llmprism.io.loading`). Records that are
impossible or have unknown addresses are counted by reason and set aside
(:mod:`llmprism.io.screening`). The rest becomes plain arrays: an address is the number of its
endpoint, a path is an index into the list of distinct paths, and rows are in order of time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from llmprism.io.columns import endpoint_codes, narrowed, numbers, path_codes
from llmprism.io.loading import INTEGERS, NAMES, OPTIONAL, REQUIRED, load
from llmprism.io.screening import REPEATED, faults, has_ports, null_rows, repetitions, take_time
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Array, Bools, Codes, Ints
from llmprism.numerics.memory import give_back

NOTES = ("observation_point", "idle_gap_ns", "active_timeout_ns", "sampling", "clock_error_ns")
_TIME = "[0-9]{1,15}"  # [ns], less than twelve days
_POSSIBLE = {
    **dict.fromkeys(("idle_gap_ns", "active_timeout_ns", "clock_error_ns"), _TIME),
    "observation_point": r"[ -~]{1,80}",
    "sampling": r"(1:)?[0-9]{1,9}(\.[0-9]{1,9})?",
}
"""Values that notes may have."""
NUMBERED = ("src_port", "dst_port", "protocol")  # numbers that nothing is computed with
_BLOCK = 1 << 20  # rows that are put in order together: what this takes beside the rows is little
_NAMED = 10  # unknown addresses that are named; the others are counted


@dataclass(frozen=True)
class Rest:
    """What is known of records that are diagnosed apart from those of a table.

    Attributes
    ----------
    recorded_ns : when the first of all records begins, and when the last one ends [ns].
    senders : codes of the endpoints that send in any of them.
    have_steps : whether steps were found in others.
    """

    recorded_ns: tuple[int, int]
    senders: Codes
    have_steps: bool = False

    def beside(self, other: Rest) -> Rest:
        """The same times, with what is known of further records."""
        senders: Codes = np.union1d(self.senders, other.senders)
        return Rest(self.recorded_ns, senders, self.have_steps or other.have_steps)


@dataclass(frozen=True)
class FlowTable:
    """Flow records in order of (start, end, src, dst, size, ports, ...), equal length arrays.

    Attributes
    ----------
    start_ns, end_ns : first and last packet [ns].
    src, dst : endpoint codes, indices into ``addresses``.
    bytes : size as exported [bytes].
    path : indices into ``paths``; -1 for an unknown path.
    optional : those of ``src_port``, ``dst_port``, ``packets``, ``payload``, ``protocol`` the
        file has; a null is -1. Ports and protocols have the shortest type that holds them.
    addresses : address of each endpoint code.
    paths : distinct paths, switch names joined by ``|``.
    meta : the exporter's notes (``observation_point``, ``idle_gap_ns``, ...), if any.
    rest : what is known of other records of the same recording, if these are not all.
    """

    start_ns: Ints
    end_ns: Ints
    src: Codes
    dst: Codes
    bytes: Ints
    path: Codes
    addresses: list[str]
    paths: list[str]
    optional: Mapping[str, Array] = field(default_factory=dict)
    meta: Mapping[str, str] = field(default_factory=dict)
    rest: Rest | None = None

    def __len__(self) -> int:
        return int(self.start_ns.size)

    @property
    def durations_ns(self) -> Ints:
        """Length of each record [ns], shape (rows,)."""
        return self.end_ns - self.start_ns

    @property
    def recorded_ns(self) -> tuple[int, int]:
        """When the first record begins and the last one ends [ns]; zeros without records."""
        if self.rest is not None:
            return self.rest.recorded_ns
        return (int(self.start_ns[0]), int(self.end_ns.max())) if len(self) else (0, 0)

    @property
    def senders(self) -> Codes:
        """Codes of the endpoints that send in this recording, in the records of others as well."""
        if self.rest is not None:
            return self.rest.senders
        sends = np.zeros(len(self.addresses), np.bool_)
        sends[self.src] = True
        return np.flatnonzero(sends).astype(np.int32)

    def as_table(self) -> pa.Table:
        """The records as an Arrow table with the contracted columns: names instead of codes.

        ``flows.as_table().to_pandas()`` is a data frame.
        """
        numbers = {name: getattr(self, name) for name in REQUIRED} | dict(self.optional)
        columns = {
            name: pa.array(values, mask=values < 0 if name in OPTIONAL else None).cast(
                INTEGERS[name]
            )
            for name, values in numbers.items()
        }
        for name, names in (("src", self.addresses), ("dst", self.addresses), ("path", self.paths)):
            codes = getattr(self, name)
            columns[name] = pa.DictionaryArray.from_arrays(
                pa.array(codes, pa.int32(), mask=codes < 0), pa.array(names, pa.string())
            )
        return pa.table(columns, metadata=dict(self.meta))

    def lengths_ns(self, rows: Ints | Codes | Bools) -> Ints:
        """Length of some records [ns]; takes no time for the others."""
        lengths = self.end_ns[rows]
        lengths -= self.start_ns[rows]
        return lengths

    @cached_property
    def pairs(self) -> tuple[Codes, Codes, Codes]:
        """Source and destination of each directed pair, by first flow; the pair of each flow."""
        key = (self.src.astype(np.int64) << 32) | self.dst
        of_flow, found = pd.factorize(key)
        ends = np.asarray(found, dtype=np.int64)
        src, dst = (ends >> 32).astype(np.int32), (ends & 0xFFFFFFFF).astype(np.int32)
        return src, dst, of_flow.astype(np.int32)


@dataclass(frozen=True)
class Intake:
    """Numbers of records read and set aside.

    Attributes
    ----------
    rows : records in the file; ``kept`` of them are diagnosed.
    set_aside : records by reason; one with several faults counts once, under the first.
    unknown_addresses : the most frequent addresses that are not in the topology, with counts.
    unknown_address_count : number of such addresses, including those listed.
    repeated : records that equal another one in every column; those with ports are set aside.
    """

    rows: int
    kept: int
    set_aside: dict[str, int]
    unknown_addresses: dict[str, int]
    unknown_address_count: int = 0
    repeated: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return a form that JSON can represent."""
        return asdict(self)


def read_flows(path: Path | str, topology: Topology) -> tuple[FlowTable, Intake]:
    """Read a Parquet flow table and look up its addresses in ``topology``.

    Raises
    ------
    UserError : with all errors at once: an unreadable or truncated file,
        missing columns, columns of the wrong type.
    """
    return place(load(path), topology)


def place(
    table: pa.Table, topology: Topology, rest: Rest | None = None
) -> tuple[FlowTable, Intake]:
    """Turn a loaded table into arrays, with addresses looked up in ``topology``."""
    notes, rows = notes_of(table.schema.metadata), table.num_rows
    given = {name: table[name] for name in table.column_names}
    del table
    null = null_rows([given[name] for name in REQUIRED])
    unknown: Counter[str] = Counter()
    columns, paths = _arrays(given, topology, unknown)
    give_back()
    bad, counts = faults(null, columns, topology.fastest_gbps, sampling_of(notes))
    if bad.any():
        _keep(columns, ~bad)
    del null, bad
    order = canonical_order(columns)
    if order is not None:
        _keep(columns, order)
        del order
    repeated = repetitions(columns)
    surplus = repeated & has_ports(columns) & take_time(columns)
    if surplus.any():
        counts[REPEATED] = int(np.count_nonzero(surplus))
        _keep(columns, ~surplus)
    main = {name: columns.pop(name) for name in (*REQUIRED, *NAMES, "path")}
    flows = FlowTable(
        **main, addresses=topology.addresses, paths=paths, optional=columns, meta=notes, rest=rest
    )
    intake = intake_of(rows, counts, unknown)
    return flows, replace(intake, repeated=int(np.count_nonzero(repeated)))


def intake_of(rows: int, set_aside: dict[str, int], unknown: Counter[str]) -> Intake:
    """Count so many ``rows``; the records of each ``unknown`` address are among them."""
    frequent = dict(sorted(unknown.items(), key=lambda item: (-item[1], item[0]))[:_NAMED])
    return Intake(rows, rows - sum(set_aside.values()), set_aside, frequent, len(unknown))


def _arrays(
    given: dict[str, pa.ChunkedArray], topology: Topology, unknown: Counter[str]
) -> tuple[dict[str, Array], list[str]]:
    """Turn columns into arrays, and take each out of ``given``, as it is as large as its array.

    Returns them with the text of each path. Records of unknown addresses are counted.
    """
    rows = len(given["src"])
    ends = {name: endpoint_codes(given.pop(name), topology, unknown) for name in NAMES}
    columns = {name: numbers(given.pop(name)) for name in INTEGERS if name in given} | ends
    columns |= {name: narrowed(columns[name]) for name in NUMBERED if name in columns}
    columns["path"], paths = path_codes(given.pop("path", None), rows)
    return columns, paths


def _keep(columns: dict[str, Array], rows: Array) -> None:
    """Replace every column by its ``rows``, one after the other: never all of them twice."""
    for name in columns:
        columns[name] = columns[name][rows]


def notes_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return the exporter's notes from the metadata of a Parquet file.

    Others are left out, and so are values that no exporter has: such a note says nothing.
    """
    raw = metadata or {}
    texts = {name: raw.get(name.encode(), b"").decode(errors="replace") for name in NOTES}
    return {name: text for name, text in texts.items() if re.fullmatch(_POSSIBLE[name], text)}


def sampling_of(notes: Mapping[str, str]) -> float:
    """Return the factor by which a sampling exporter scaled its counts, otherwise 1."""
    digits = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", notes.get("sampling", ""))]
    return max([1.0, *digits])


def canonical_order(columns: Mapping[str, Array], block: int = _BLOCK) -> Ints | None:
    """Return an order that does not depend on the order of records; None if it already holds.

    Ties in one column are broken by the next one, so only equal rows remain tied. About ``block``
    rows are put in order together.
    """
    rest = [columns[name] for name in ("bytes", *OPTIONAL, "path") if name in columns]
    keys = [columns["start_ns"], columns["end_ns"], columns["src"], columns["dst"], *rest]
    if _is_sorted(keys):
        return None
    start = keys[0]
    order = np.argsort(start, kind="stable")
    first = 0
    while first < order.size:  # rows with one start stay together
        last_start = start[order[min(first + block, order.size) - 1]]
        until = int(np.searchsorted(start, last_start, side="right", sorter=order))
        order[first:until] = _without_ties(order[first:until], keys)
        first = until
    return order


def _without_ties(order: Ints, keys: list[Array]) -> Ints:
    """Rows in order of the first of the ``keys``, put in order of the others where it ties."""
    first = np.ones(order.size, dtype=np.bool_)  # True where a run of equal rows begins
    first[1:] = np.diff(keys[0][order]) != 0
    for key in keys[1:]:
        tied = ~first
        tied[:-1] |= tied[1:]
        at = np.flatnonzero(tied)
        if at.size == 0:
            break
        rows = order[at]
        order[at] = rows[np.lexsort((key[rows], np.cumsum(first)[at]))]
        own = key[order]
        first[1:] |= own[1:] != own[:-1]
    return order


def _is_sorted(keys: list[Array]) -> bool:
    tied = np.ones(max(keys[0].size - 1, 0), dtype=np.bool_)
    for key in keys:
        if np.any(tied & (key[1:] < key[:-1])):
            return False
        tied &= key[1:] == key[:-1]
    return True
