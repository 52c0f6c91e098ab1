"""The flow table: what the collector recorded, checked once and ready for arithmetic.

A Parquet file of flow records comes in. Columns are checked for presence and exact type, all
complaints at once. Records that cannot be true or cannot be placed (they end before they
start, have a negative size, no address, or an address the topology does not know) are counted
by reason and set aside. The rest becomes plain arrays: an address is its endpoint's number,
a path is a number into the list of distinct paths, and rows stand in order of time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from llmprism.errors import Problem, UserError
from llmprism.io.topology import Topology
from llmprism.numerics.arrays import Bools, Codes, Ints

NULL, UNKNOWN = -2, -1  # what an endpoint code says when it is none
REQUIRED = {"start_ns": pa.int64(), "end_ns": pa.int64(), "bytes": pa.int64()}
NAMES = ("src", "dst")
OPTIONAL = {
    "src_port": pa.int32(),
    "dst_port": pa.int32(),
    "packets": pa.int64(),
    "payload": pa.int64(),
    "protocol": pa.int32(),
}
INTEGERS = {**REQUIRED, **OPTIONAL}
COLUMNS = {**INTEGERS, **dict.fromkeys(NAMES, pa.string()), "path": pa.string()}
NOTES = ("observation_point", "idle_gap_ns", "active_timeout_ns", "sampling")
_SHOWN = 10  # unknown addresses named in the report; the rest is only counted


@dataclass(frozen=True)
class FlowTable:
    """Flow records in order of (start, end, src, dst, size, ports, ...), equal length arrays.

    Attributes
    ----------
    start_ns, end_ns : first and last packet [ns].
    src, dst : endpoint codes, indices into ``addresses``.
    bytes : size as exported [bytes].
    path : indices into ``paths``; -1 where nothing is known.
    optional : those of ``src_port``, ``dst_port``, ``packets``, ``payload``, ``protocol`` the
        file has; a null is -1.
    addresses : address of each endpoint code.
    paths : distinct paths, switch names joined by ``|``.
    meta : the exporter's notes (``observation_point``, ``idle_gap_ns``, ...), if any.
    """

    start_ns: Ints
    end_ns: Ints
    src: Codes
    dst: Codes
    bytes: Ints
    path: Codes
    addresses: list[str]
    paths: list[str]
    optional: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    meta: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.start_ns.size)

    @property
    def durations_ns(self) -> Ints:
        """Length of each record [ns], shape (rows,)."""
        return self.end_ns - self.start_ns

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
    """What happened to the records at the door.

    Attributes
    ----------
    rows : records in the file; ``kept`` of them are diagnosed.
    set_aside : records by reason; one with several faults counts once, under the first.
    unknown_addresses : the most frequent addresses the topology does not know, with counts.
    """

    rows: int
    kept: int
    set_aside: dict[str, int]
    unknown_addresses: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Return a form that JSON can hold."""
        return {
            "rows": self.rows,
            "kept": self.kept,
            "set_aside": self.set_aside,
            "unknown_addresses": self.unknown_addresses,
        }


def read_flows(path: Path | str, topology: Topology) -> tuple[FlowTable, Intake]:
    """Read a Parquet flow table and place its addresses in ``topology``.

    Raises
    ------
    UserError : with everything that is wrong at once: an unreadable or truncated file,
        missing columns, columns of the wrong type.
    """
    return place(load(path), topology)


def place(table: pa.Table, topology: Topology) -> tuple[FlowTable, Intake]:
    """Turn a loaded table into arrays, with addresses placed in ``topology``."""
    src, dst = (_endpoints(table[name], topology) for name in NAMES)
    columns = {name: _numbers(table[name]) for name in table.column_names if name in INTEGERS}
    columns |= {"src": src, "dst": dst}
    columns["path"], paths = _paths(table)
    bad, counts = _faults(table, columns)
    if bad.any():
        columns = {name: column[~bad] for name, column in columns.items()}
    order = canonical_order(columns)
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
    main = {name: columns.pop(name) for name in (*REQUIRED, *NAMES, "path")}
    flows = FlowTable(
        **main, addresses=topology.addresses, paths=paths, optional=columns, meta=_notes(table)
    )
    return flows, Intake(table.num_rows, len(flows), counts, _unknown(table, topology))


def load(path: Path | str) -> pa.Table:
    """Read and check the columns we know, names as codes, without a string a row.

    Raises
    ------
    UserError : as :func:`read_flows`.
    """
    path = Path(path)
    try:
        schema = pq.read_schema(path)
        problems = _column_problems(schema, path)
        if problems:
            raise UserError(problems)
        names = [name for name in COLUMNS if name in schema.names]
        coded = [name for name in names if name not in INTEGERS]
        return pq.ParquetFile(path, read_dictionary=coded).read(columns=names)
    except FileNotFoundError as error:
        raise UserError(Problem("there is no such file", str(path))) from error
    except (pa.ArrowException, OSError) as error:
        message = str(error).splitlines()[0]
        raise UserError(Problem(f"not a readable Parquet file: {message}", str(path))) from error


def _column_problems(schema: pa.Schema, path: Path) -> list[Problem]:
    problems = []
    for name, wanted in COLUMNS.items():
        count = schema.names.count(name)
        if count > 1:
            what = f"column {name!r} appears {count} times"
            problems.append(Problem(what, str(path), "keep one"))
        elif count == 0 and name in (*REQUIRED, *NAMES):
            what = f"column {name!r} ({wanted}) is missing"
            problems.append(Problem(what, str(path), "see the flow table's columns in the README"))
        elif count == 1 and not _fits(schema.field(name).type, wanted):
            what = f"column {name!r} is {schema.field(name).type}, and must be {wanted}"
            problems.append(Problem(what, str(path), "convert it when writing the file"))
    return problems


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    if wanted != pa.string():
        return bool(found == wanted)
    if pa.types.is_dictionary(found):
        found = found.value_type
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _numbers(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """Return integers, nulls as -1 (whether a null is a fault is told elsewhere)."""
    numbers: np.ndarray[Any, Any] = pc.fill_null(column, -1).to_numpy()
    return numbers


def _coded(column: pa.ChunkedArray) -> tuple[Codes, list[str | None]]:
    """Return a code a row (-1 for null) and the text of each code."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if column.num_chunks == 0:
        return np.empty(0, dtype=np.int32), []
    codes = [pc.fill_null(chunk.indices.cast(pa.int32()), -1) for chunk in column.chunks]
    texts: list[str | None] = column.chunk(0).dictionary.to_pylist()
    return np.concatenate([code.to_numpy() for code in codes]), texts


def _endpoints(column: pa.ChunkedArray, topology: Topology) -> Codes:
    """Return endpoint codes: UNKNOWN for an address nobody knows, NULL for none."""
    codes, texts = _coded(column)
    known = topology.codes
    meaning = [NULL if text is None else known.get(text, UNKNOWN) for text in texts]
    return np.array([*meaning, NULL], dtype=np.int32)[codes]  # the last stands for code -1


def _unknown(table: pa.Table, topology: Topology) -> dict[str, int]:
    """Count the records of the most frequent addresses that the topology does not know."""
    counts: Counter[str] = Counter()
    for name in NAMES:
        codes, texts = _coded(table[name])
        records = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
        for text, count in zip(texts, records, strict=True):
            if count and text is not None and text not in topology.codes:
                counts[text] += count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN])


def _paths(table: pa.Table) -> tuple[Codes, list[str]]:
    if "path" not in table.column_names:
        return np.full(table.num_rows, -1, dtype=np.int32), []
    codes, texts = _coded(table["path"])
    paths = sorted({text for text in texts if text is not None})
    number = {text: i for i, text in enumerate(paths)}
    meaning = [-1 if text is None else number[text] for text in texts]
    return np.array([*meaning, -1], dtype=np.int32)[codes], paths


def _faults(
    table: pa.Table, columns: Mapping[str, np.ndarray[Any, Any]]
) -> tuple[Bools, dict[str, int]]:
    """Mark the rows to set aside, and count them by the first reason that holds."""
    null = np.zeros(table.num_rows, dtype=np.bool_)
    for name in REQUIRED:
        if table[name].null_count:
            null |= table[name].is_null().to_numpy()
    src, dst = columns["src"], columns["dst"]
    reasons = {
        "null time or size": null,
        "null address": (src == NULL) | (dst == NULL),
        "address unknown to the topology": (src == UNKNOWN) | (dst == UNKNOWN),
        "ends before it starts": columns["end_ns"] < columns["start_ns"],
        "negative size": columns["bytes"] < 0,
    }
    bad = np.zeros(table.num_rows, dtype=np.bool_)
    counts: dict[str, int] = {}
    for reason, rows in reasons.items():
        fresh = int(np.count_nonzero(rows & ~bad))
        if fresh:
            counts[reason] = fresh
            bad |= rows
    return bad, counts


def _notes(table: pa.Table) -> dict[str, str]:
    """Return the exporter's notes from the Parquet metadata; other libraries' are left out."""
    raw = table.schema.metadata or {}
    return {name: raw[name.encode()].decode() for name in NOTES if name.encode() in raw}


def canonical_order(columns: Mapping[str, np.ndarray[Any, Any]]) -> Ints | None:
    """Return the order that does not depend on how records were shuffled; None if it holds.

    Ties in one column are broken by the next, so that in the end only equal rows tie.
    """
    pair = (columns["src"].astype(np.int64) << 32) | columns["dst"]
    rest = [columns[name] for name in ("bytes", *OPTIONAL, "path") if name in columns]
    keys = [columns["start_ns"], columns["end_ns"], pair, *rest]
    if _is_sorted(keys):
        return None
    order = np.argsort(keys[0], kind="stable")
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
        first[1:] |= np.diff(key[order]) != 0
    return order


def _is_sorted(keys: list[np.ndarray[Any, Any]]) -> bool:
    tied = np.ones(max(keys[0].size - 1, 0), dtype=np.bool_)
    for key in keys:
        if np.any(tied & (key[1:] < key[:-1])):
            return False
        tied &= key[1:] == key[:-1]
    return True
