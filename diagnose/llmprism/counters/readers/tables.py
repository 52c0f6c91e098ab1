"""CSV and Parquet: one row a reading, with the time, the port, and bytes in and out.

A port is a column ``port`` or ``address``, or two: a switch and its interface, which are joined by
a slash. Columns are known by the names of :mod:`llmprism.counters.names`, or by ``--map``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from llmprism.counters.names import column_of, plain, refuse_rates
from llmprism.counters.readers.options import Options
from llmprism.counters.readings import COLUMNS, IN, OUT, Form, PortReadings, Readings
from llmprism.numerics.arrays import Ints
from prism_common.errors import Problem, UserError

NAME = "table"
PORT_NAMES = ("port", "address", "interface", "ifname", "portname", "ifdescr", "nic")
SWITCH_NAMES = ("switch", "devicename", "device", "host", "instance", "source", "agent")
TIME_NAMES = ("timens", "time", "timestamp", "savetimeutc", "ts", "datetime", "date", "timems")
FORM = b"counters"
"""Key of the metadata of a Parquet table that says whether its counters are cumulative."""
SIDE = b"side"
FALLS = 0.01
"""Share of the readings of a cumulative counter that may fall: resets and wraps."""
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def knows(_path: Path, head: bytes) -> bool:
    """Whether this is a Parquet file, or text with a head of columns."""
    first = head.split(b"\n", 1)[0]
    return head.startswith(b"PAR1") or (b"," in first and b"\0" not in first and b"{" not in first)


def read(path: Path, options: Options) -> Readings:
    """Read one table."""
    table = _load(path)
    notes = table.schema.metadata or {}
    side = options.side or (notes.get(SIDE, b"").decode() or None)
    chosen = _columns(table.column_names, options, side, str(path))
    frame = pd.DataFrame({ours: _plain(table[theirs]) for ours, theirs in chosen.items()})
    time_ns, usable = _times(frame["time"], options.time_unit, str(path))
    counts: Counter[str] = Counter()
    numbers = {name: _words(frame[name]) for name in chosen if name in COLUMNS}
    for name in (IN, OUT):
        usable = usable & numbers[name][1]
    usable = usable & frame["port"].notna().to_numpy()
    counts["rows without a time, a port or a number"] += int((~usable).sum())
    ports = frame["port"].astype(str)
    if "switch" in frame:
        ports = frame["switch"].astype(str) + "/" + ports
    values = {name: words[usable] for name, (words, _) in numbers.items()}
    found = _by_port(ports[usable], time_ns[usable], values)
    given = options.form or notes.get(FORM, b"").decode() or form_of(found)
    return Readings("differences" if given == "differences" else "cumulative", found, counts)


def _load(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet" or path.open("rb").read(4) == b"PAR1":
            return pq.read_table(path)
        bad = pc.ParseOptions(invalid_row_handler=lambda _row: "skip")
        return pc.read_csv(path, parse_options=bad)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(Problem(f"cannot read this table: {first}", str(path))) from error


def _columns(names: list[str], options: Options, side: Any, where: str) -> dict[str, str]:
    """Which column of the table each of ours is."""
    chosen = {ours: theirs for ours, theirs in options.mapping.items() if theirs in names}
    absent = sorted(set(options.mapping.values()) - set(names))
    if absent:
        listed = ", ".join(names)
        raise UserError(Problem(f"--map names no column {absent[0]!r}", where, f"it has: {listed}"))
    for name in names:
        column = column_of(name, side)
        if column and column not in chosen:
            chosen[column] = name
        for ours, known in (("time", TIME_NAMES), ("port", PORT_NAMES), ("switch", SWITCH_NAMES)):
            if plain(name) in known and ours not in chosen and name not in chosen.values():
                chosen[ours] = name
    lacking = [ours for ours in ("time", "port", IN, OUT) if ours not in chosen]
    if lacking:
        if IN in lacking or OUT in lacking:
            refuse_rates(set(names) - set(chosen.values()), where)
        how = f"name them: --map {','.join(f'{name}=COLUMN' for name in lacking)}"
        what = f"no column for {', '.join(lacking)} among {', '.join(names)}"
        raise UserError(Problem(what, where, how))
    return chosen


def _plain(column: pa.ChunkedArray) -> pd.Series:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pd.Series(column.to_pandas())


def _times(given: Any, unit: str | None, where: str) -> tuple[Ints, Any]:
    """Times in ns, and which are usable."""
    if pd.api.types.is_datetime64_any_dtype(given):
        moments = pd.to_datetime(given, utc=True)
    elif pd.api.types.is_numeric_dtype(given):
        usable = given.notna().to_numpy()
        numbers = given.fillna(0)
        size = UNITS[unit] if unit else _unit_of(float(numbers.max() if len(numbers) else 0))
        if pd.api.types.is_integer_dtype(numbers):
            return numbers.to_numpy(np.int64) * size, usable
        return np.rint(numbers.to_numpy(np.float64) * size).astype(np.int64), usable
    else:
        moments = pd.to_datetime(given, utc=True, errors="coerce", format="ISO8601")
        if len(given) and moments.isna().all():
            what = f"{given.iloc[0]!r} is no point in time"
            raise UserError(Problem(what, where, "write times as ISO 8601, or as numbers"))
    usable = moments.notna().to_numpy()
    filled = moments.fillna(pd.Timestamp(0, tz="UTC"))
    return filled.dt.as_unit("ns").to_numpy(np.int64), usable


def _unit_of(largest: float) -> int:
    """Unit of times since 1970 by their size: those of our century have 10, 13, 16 or 19 digits."""
    return next(
        (UNITS[u] for u, top in (("s", 1e11), ("ms", 1e14), ("us", 1e17)) if largest < top), 1
    )


def _words(given: Any) -> tuple[Ints, Any]:
    """Numbers as words of 64 bits, and which are usable."""
    numbers = pd.to_numeric(given, errors="coerce")
    usable = numbers.notna().to_numpy()
    if pd.api.types.is_unsigned_integer_dtype(numbers):
        return numbers.to_numpy(np.uint64).view(np.int64), usable
    if pd.api.types.is_integer_dtype(numbers):
        return numbers.to_numpy(np.int64), usable
    return as_words(numbers.fillna(0).to_numpy(np.float64)), usable


def as_words(numbers: Any) -> Ints:
    """Numbers up to 2^64 as words of 64 bits; those from 2^63 on are negative ones.

    >>> as_words([5, 2**64 - 1]).tolist()
    [5, -1]
    """
    exact = [int(number) % 2**64 for number in numbers]
    return np.array(exact, np.uint64).view(np.int64)


def _by_port(ports: pd.Series, time_ns: Ints, values: dict[str, Ints]) -> list[PortReadings]:
    codes, names = pd.factorize(ports)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
    return [
        PortReadings(
            str(name),
            time_ns[order[low:high]],
            {column: words[order[low:high]] for column, words in values.items()},
        )
        for name, low, high in zip(names, bounds[:-1], bounds[1:], strict=True)
    ]


def form_of(ports: list[PortReadings]) -> Form:
    """Whether counters are cumulative: then they hardly ever fall."""
    falls = sum(int((np.diff(port.values[IN]) < 0).sum()) for port in ports)
    rises = sum(int((np.diff(port.values[IN]) > 0).sum()) for port in ports)
    return "cumulative" if falls <= FALLS * (falls + rises) + 1 else "differences"
