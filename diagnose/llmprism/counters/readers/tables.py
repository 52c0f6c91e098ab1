"""CSV and Parquet: one row a reading, with the time, the port, and bytes in and out.

A port is a column ``port`` or ``address``, or two: a switch and its interface, which are joined by
a slash. Columns are known by the words of :mod:`llmprism.counters.names`, or by ``--map``. A table
with one counter a row (columns for its name and its value, as of InfluxDB) is read as samples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from llmprism.counters.names import (
    PLACES,
    WALKED,
    WHY_NO_RATES,
    Meaning,
    is_time,
    meaning_of,
    plain,
    refuse_rates,
)
from llmprism.counters.readers.options import Options
from llmprism.counters.readers.samples import Samples, as_words, labelled, whole_number
from llmprism.counters.readings import COLUMNS, IN, OUT, PortReadings, Readings
from llmprism.ingest.columns import unit_in
from llmprism.ingest.readers.csv import header, text_tables
from llmprism.ingest.sources import Source
from llmprism.ingest.times import times_ns
from llmprism.io.notes import Notes
from llmprism.io.sources import readable
from llmprism.numerics.arrays import Bools, Ints
from prism_common.errors import Problem, UserError

NAME = "table (CSV, Parquet)"
MOST_READINGS = 100_000_000
"""Rows of a file: an hour of 27,000 ports, read each second."""
FORM, SIDE = b"counters", b"side"
"""Keys of the metadata of a Parquet table: whether its counters are cumulative, and who counts."""
NO_TIME = "rows without a time, a port or a number"
_BATCH_ROWS = 1 << 17
_FORMATTED = re.compile(r"-?\d[\d.,]*\s*[kKMGTP]?i?(B|b|bits?|bytes|Bps|bps)(/s)?")
_PLAIN = r"^\s*-?\d{1,18}\s*$"


def knows(_path: Path, head: bytes) -> bool:
    """Whether this is a Parquet file, or text with a head of columns."""
    first = head.split(b"\n", 1)[0]
    is_text = b"\0" not in first and first[:1] not in (b"{", b"[")
    return head.startswith(b"PAR1") or (is_text and any(mark in first for mark in b",;\t"))


def read(path: Path, options: Options) -> Readings:
    """Read one table.

    Raises
    ------
    UserError : columns are missing or twice, it is no table, or has too many rows.
    """
    dropped = Notes()
    with _opened(path, dropped) as (names, notes, batches):
        by_name = {plain(name): name for name in reversed(names)}
        named = next((by_name[name] for name in WALKED["names"] if name in by_name), None)
        if named and "value" in by_name:
            found = _samples(batches, named, by_name["value"], names, options, str(path))
            return replace(found, set_aside=found.set_aside + dropped.set_aside)
        side: Any = options.side or notes.get(SIDE, b"").decode("latin-1") or None
        places, counters = _columns(names, options, side, str(path))
        parts = [_part(table, places, counters, str(path)) for table in batches]
    form: Any = notes.get(FORM, b"").decode("latin-1")
    counts = dropped.set_aside
    ports: list[PortReadings] = []
    if parts:
        moments = pa.chunked_array([chunk for part in parts for chunk in part["time"].chunks])
        time_ns = _times(moments, places["time"], options.time_unit, str(path))
        ports = _by_port(parts, time_ns, _has_zone(moments), counters, counts)
    return Readings(form if form in ("cumulative", "differences") else None, ports, counts)


@contextmanager
def _opened(
    path: Path, dropped: Notes
) -> Iterator[tuple[list[str], Mapping[bytes, bytes], Iterator[pa.Table]]]:
    """Names of the columns, the metadata, and the rows of a table, some at a time."""
    source = Source(path)
    with readable(path, what="cannot read this table"):
        if not source.head.startswith(b"PAR1"):
            names, delimiter = header(source)
            yield names, {}, _few(text_tables(source, names, delimiter, dropped), str(path))
            return
        with pq.ParquetFile(path) as file:
            _bounded(file.metadata.num_rows, str(path))
            names = file.schema_arrow.names
            if len({*names}) < len(names):
                raise UserError(Problem("a column appears more than once", str(path)))
            batches = _few(file.iter_batches(_BATCH_ROWS), str(path))
            yield names, file.metadata.metadata or {}, batches


def _bounded(rows: int, where: str) -> None:
    if rows > MOST_READINGS:
        what = f"{rows:,} readings, and at most {MOST_READINGS:,} are read at once"
        raise UserError(Problem(what, where, "divide the table by its times"))


def _few(tables: Iterator[pa.Table | pa.RecordBatch], where: str) -> Iterator[pa.Table]:
    rows = 0
    for table in tables:
        table.validate(full=True)
        rows += table.num_rows
        _bounded(rows, where)
        yield table if isinstance(table, pa.Table) else pa.Table.from_batches([table])


def _columns(
    names: list[str], options: Options, side: Any, where: str
) -> tuple[dict[str, str], dict[str, Meaning]]:
    """The columns of time, port and switch, and what each other column counts."""
    mapped = {theirs: ours for ours, theirs in options.mapping.items()}
    absent = sorted({*mapped} - {*names})
    if absent:
        listed = ", ".join(names)
        raise UserError(Problem(f"--map names no column {absent[0]!r}", where, f"it has: {listed}"))
    places = {ours: name for name, ours in mapped.items() if ours not in COLUMNS}
    counters = {n: Meaning(ours, "bytes", "") for n, ours in mapped.items() if ours in COLUMNS}
    unmapped = [name for name in names if name not in mapped]
    for name in sorted(unmapped, key=lambda one: not plain(one).startswith("nodedesc")):
        meaning = meaning_of(name, side)
        if meaning is None:
            places.setdefault(_place_of(name), name)
        elif meaning.column not in options.mapping:
            counters[name] = meaning
    if "last" in places:
        places.setdefault("port", places.pop("last"))
    rest = {*names} - {*counters} - {name for ours, name in places.items() if ours}
    have = {*places} | {one.column for one in counters.values()}
    lacking = [ours for ours in ("time", "port", IN, OUT) if ours not in have]
    if lacking:
        if {IN, OUT} & {*lacking}:
            refuse_rates(rest, where)
        how = f"name them: --map {','.join(f'{name}=COLUMN' for name in lacking)}"
        if "port" in lacking:
            how = ("a column a port is not read (and a panel shows rates): export a row a reading,"
                   f" with time, port, bytes in and out; or {how}")  # fmt: skip
        what = f"no column for {', '.join(lacking)} among {', '.join(names[:30])}"
        raise UserError(Problem(what, where, how))
    return places, counters


def _place_of(name: str) -> str:
    """Which of time, port and switch a column is by its name; empty if it is none."""
    if is_time(name):
        return "time"
    return next((ours for ours, known in PLACES.items() if plain(name) in known), "")


def _samples(
    batches: Iterator[pa.Table], named: str, valued: str, names: list[str], options: Options,
    where: str,
) -> Readings:  # fmt: skip
    """The readings of a table with one counter a row."""
    samples = Samples(options)
    timed = options.mapping.get("time") or next((n for n in names if _place_of(n) == "time"), "")
    if timed not in names:
        raise UserError(Problem("no column for time", where, "name it: --map time=COLUMN"))
    for table in batches:
        times = _times(table[timed], timed, options.time_unit, where).to_pylist()
        for time_ns, row in zip(times, table.to_pylist(), strict=True):
            if time_ns is None:
                samples.counts[NO_TIME] += 1
                continue
            labels = {key.lstrip("_"): value for key, value in row.items() if value is not None}
            name, more = labelled(str(row[named]))
            samples.add(labels | more, name, time_ns, row[valued])
    return samples.readings(where)


def _part(
    table: pa.Table, places: dict[str, str], counters: dict[str, Meaning], where: str
) -> dict[str, Any]:
    """The columns that are used, of some rows: counters with their validity."""
    ports = table[places["port"]].cast(pa.string())
    if "switch" in places:
        switches = pc.fill_null(table[places["switch"]].cast(pa.string()), "")
        ports = pc.binary_join_element_wise(switches, ports, "/")
    for name in counters if table.num_rows else ():
        shown = str(table[name][0].as_py())
        if _FORMATTED.fullmatch(shown):
            kind = "a rate" if "/s" in shown or "ps" in shown else "rounded"
            what = f"column {name!r} has {shown!r}, which is {kind}"
            raise UserError(Problem(what, where, WHY_NO_RATES))
    words = {name: _words(table[name]) for name in counters}
    return {"time": table[places["time"]], "port": ports.to_pandas(), **words}


def _words(values: pa.ChunkedArray) -> tuple[Ints, Bools]:
    """Numbers as words of 64 bits, and which are usable: whole numbers below 2^64."""
    if pa.types.is_dictionary(values.type):
        return _words(values.cast(values.type.value_type))
    if pa.types.is_integer(values.type):
        found = pc.fill_null(values, 0).to_numpy()
        words = found.astype(np.uint64 if found.dtype.kind == "u" else np.int64).view(np.int64)
        return words, values.is_valid().to_numpy()
    if pa.types.is_floating(values.type):
        real = pc.fill_null(values, np.nan).to_numpy().astype(np.float64)
        usable = (real >= 0) & (real < 2**64) & (np.rint(real) == real)
        return np.where(usable, real, 0).astype(np.uint64).view(np.int64), usable
    text = values.cast(pa.string())
    simple = pc.fill_null(pc.match_substring_regex(text, _PLAIN), False)
    words = pc.if_else(simple, pc.utf8_trim_whitespace(text), "0").cast(pa.int64()).to_numpy()
    usable, words = simple.to_numpy().copy(), words.copy()
    for row in np.flatnonzero(~usable & text.is_valid().to_numpy()):
        number = whole_number(text[int(row)].as_py().strip())
        if number is not None:
            words[row], usable[row] = as_words([number])[0], True
    return words, usable


def _times(column: pa.ChunkedArray, name: str, unit: str | None, where: str) -> pa.Array:
    """Times of rows [ns], null where there is none.

    Raises
    ------
    UserError : none is a time, or the name of the column, the option and the size of the times
        have different units.
    """
    named, by_size = unit_in(name), times_ns(column, unit)
    found = times_ns(column, named) if named else by_size
    if not pc.equal(found, by_size).equals(pc.equal(found, found)):
        first = next((one for one in column.to_pylist() if one is not None), "")
        reason = f"--time-unit is {unit}" if unit else f"times such as {first} are not"
        what = f"column {name!r} is in {named} by its name, and {reason}"
        raise UserError(Problem(what, where, "rename the column, or leave out --time-unit"))
    if len(found) and found.null_count == len(found):
        how = "write times as ISO 8601, or as numbers"
        raise UserError(Problem(f"{str(column[0])[:40]!r} is no point in time", where, how))
    return found


def _has_zone(column: pa.ChunkedArray) -> bool:
    """Whether times are numbers, or text with a zone."""
    if pa.types.is_timestamp(column.type) or not pa.types.is_string(column.type):
        return getattr(column.type, "tz", "") is not None
    first = str(next((one for one in column.slice(0, 100).to_pylist() if one), ""))
    return ":" not in first or bool(re.search(r"(Z|[+-]\d\d:?\d\d)\s*$", first))


def _by_port(
    parts: list[dict[str, Any]], time_ns: pa.Array, has_zone: bool, counters: dict[str, Meaning],
    counts: Counter[str],
) -> list[PortReadings]:  # fmt: skip
    """The readings of each port and each of its counters of bytes."""
    codes, known = pd.factorize(pd.concat([part["port"] for part in parts]))
    columns = {
        name: tuple(np.concatenate([part[name][k] for part in parts]) for k in (0, 1))
        for name in counters
    }
    moments = pc.fill_null(time_ns, 0).to_numpy(zero_copy_only=False)
    placed = (codes >= 0) & time_ns.is_valid().to_numpy(zero_copy_only=False)
    lost, found = np.ones(codes.size, np.bool_), []
    events: dict[str, str] = {}
    families: dict[str, dict[str, str]] = {}
    for name, one in counters.items():
        in_bytes = one.column in (IN, OUT)
        (families.setdefault(one.family, {}) if in_bytes else events).setdefault(one.column, name)
    for family, own in families.items():
        if len(own) < 2:
            continue
        usable = placed & columns[own[IN]][1] & columns[own[OUT]][1]
        lost &= ~usable
        rows = np.flatnonzero(usable)
        rows = rows[np.argsort(codes[rows], kind="stable")]
        bounds = np.searchsorted(codes[rows], np.arange(len(known) + 1))
        for port, low, high in zip(known, bounds[:-1], bounds[1:], strict=True):
            at = rows[low:high]
            values = {column: columns[n][0][at] for column, n in (events | own).items()}
            unit = counters[own[IN]].unit
            if at.size:
                found.append(PortReadings(str(port), moments[at], values, family, unit, has_zone))
    counts[NO_TIME] += int(lost.sum())
    return found
