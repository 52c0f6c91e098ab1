"""From any table with named columns to batches: the mapping of columns and of times.

Each of our columns has names under which it is commonly found; ``--map`` says otherwise.
Times are numbers in s, ms, us or ns (by their size, or as given), or text in ISO 8601, in UTC
where no zone is given. Addresses are written in one way: an IPv4 address that is mapped into
IPv6 becomes plain IPv4.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.errors import Problem, UserError
from llmprism.ingest.options import UNITS_NS, Options
from llmprism.ingest.records import batch

COMMON: dict[str, tuple[str, ...]] = {
    "start_ns": (
        "start_ns",
        "start",
        "ts",
        "first",
        "start_time",
        "first_switched",
        "flow_start",
        "time",
    ),
    "end_ns": ("end_ns", "end", "te", "last", "end_time", "last_switched", "flow_end"),
    "duration": ("duration", "td", "dur"),
    "src": ("src", "srcaddr", "src_addr", "src_ip", "source", "sa", "ip_src", "id.orig_h"),
    "dst": ("dst", "dstaddr", "dst_addr", "dst_ip", "destination", "da", "ip_dst", "id.resp_h"),
    "bytes": ("bytes", "octets", "size", "ibyt", "dOctets", "in_bytes", "num_bytes"),
    "src_port": ("src_port", "srcport", "sport", "sp", "l4_src_port"),
    "dst_port": ("dst_port", "dstport", "dport", "dp", "l4_dst_port"),
    "packets": ("packets", "pkts", "ipkt", "dPkts", "in_packets", "in_pkts"),
    "payload": ("payload",),
    "protocol": ("protocol", "proto", "pr", "prot"),
    "dst_qp": ("dst_qp", "dest_qp"),
    "sampling": ("sampling", "sampling_rate"),
    "observer": ("observer", "exporter", "sampler_address"),
    "path": ("path",),
}
PROTOCOLS = {"icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ipv6-icmp": 58}
PROTOCOLS |= {"icmp6": 58, "icmpv6": 58, "sctp": 132, "udplite": 136}
_INTEGERS = ("bytes", "src_port", "dst_port", "packets", "payload", "dst_qp", "sampling")
_NEEDED = ("start_ns", "src", "dst", "bytes")
_SIZES = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))  # a time since 1970 at or above is in it


def choose(names: Iterable[str], options: Options, where: str) -> dict[str, str]:
    """Return the source's column for each of ours that it has.

    Raises
    ------
    UserError : for a mapping to or from a column that does not exist, and for each column that
        is needed and not found.
    """
    present = list(names)
    folded = {name.lower(): name for name in reversed(present)}
    problems = []
    chosen = {}
    for ours, common in COMMON.items():
        wanted = _mapped(ours, options.mapping)
        if wanted is not None:
            if wanted not in present:
                listed = ", ".join(present[:30])
                what = f"there is no column {wanted!r}"
                problems.append(Problem(what, where, f"its columns: {listed}"))
            chosen[ours] = wanted
            continue
        found = next((folded[one.lower()] for one in common if one.lower() in folded), None)
        if found is not None:
            chosen[ours] = found
    for ours in options.mapping:
        if ours not in COMMON and f"{ours}_ns" not in COMMON:
            how = f"known: {', '.join(one.removesuffix('_ns') for one in COMMON)}"
            problems.append(Problem(f"there is no column {ours!r} to map to", "--map", how))
    missing = [ours.removesuffix("_ns") for ours in _NEEDED if ours not in chosen]
    if missing:
        what = f"no column was found for {', '.join(map(repr, missing))}"
        how = f"name it: --map {','.join(f'{ours}=COLUMN' for ours in missing)}; its columns: "
        problems.append(Problem(what, where, how + ", ".join(present[:30])))
    if problems:
        raise UserError(problems)
    return chosen


def _mapped(ours: str, mapping: Mapping[str, str]) -> str | None:
    return mapping.get(ours, mapping.get(ours.removesuffix("_ns")))


def convert(table: pa.Table, chosen: Mapping[str, str], options: Options) -> pa.Table:
    """Return a batch from a table's columns; a value that cannot be read becomes null."""
    columns: dict[str, Any] = {}
    for ours, theirs in chosen.items():
        if ours in _INTEGERS:
            columns[ours] = integers(table[theirs], _bits(ours))
    for ours in ("src", "dst", "observer"):
        if ours in chosen:
            columns[ours] = addresses(table[chosen[ours]])
    if "path" in chosen:
        columns["path"] = table[chosen["path"]].cast(pa.string())
    if "protocol" in chosen:
        columns["protocol"] = protocols(table[chosen["protocol"]])
    columns["start_ns"] = times_ns(table[chosen["start_ns"]], options.time_unit)
    columns["end_ns"] = _ends(table, chosen, columns["start_ns"], options)
    return batch(columns)


def _ends(
    table: pa.Table, chosen: Mapping[str, str], start: pa.Array, options: Options
) -> pa.Array:
    """Return the ends: given, or start and duration; a record without either is an instant."""
    if "end_ns" in chosen:
        return times_ns(table[chosen["end_ns"]], options.time_unit)
    if "duration" not in chosen:
        return start
    length = numbers(table[chosen["duration"]])
    unit = UNITS_NS[options.time_unit or "s"]
    with np.errstate(over="ignore"):  # too long a time is no number, and becomes null
        return pc.add(start, _whole(np.nan_to_num(length, nan=0.0) * unit))


def _bits(name: str) -> int:
    wide = name in {"bytes", "packets", "payload"}
    return 63 if wide else 31


def numbers(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return a column of numbers, or of text that holds them; NaN for what is none."""
    series = column.to_pandas()
    found: np.ndarray[Any, np.dtype[np.float64]] = pd.to_numeric(series, errors="coerce").to_numpy(
        np.float64, na_value=np.nan
    )
    return found


def integers(column: pa.ChunkedArray, bits: int = 63) -> pa.Array:
    """Return integers of at most ``bits`` bits; null for what is none."""
    if pa.types.is_integer(column.type) and column.type != pa.uint64():
        values = column.cast(pa.int64()).combine_chunks()
    else:
        values = _whole(numbers(column))
    limit = 2**bits - 1
    fits = pc.and_(pc.less_equal(values, limit), pc.greater_equal(values, -limit))
    return pc.if_else(fits, values, None)


def _whole(values: np.ndarray[Any, np.dtype[np.float64]]) -> pa.Array:
    """Return floats rounded to integers; null for NaN and for what does not fit."""
    bad = ~(np.abs(values) < 2.0**62)
    return pa.array(np.where(bad, 0, np.rint(values)).astype(np.int64), mask=bad)


def times_ns(column: pa.ChunkedArray, unit: str | None = None) -> pa.Array:
    """Return times in ns since 1970; null for what cannot be read."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return times_ns(column.cast(kind.value_type), unit)
    if pa.types.is_timestamp(kind):
        try:
            wide = column.cast(pa.timestamp("ns", tz=kind.tz))
        except pa.ArrowInvalid:  # years that 64 bits of ns do not reach
            return pa.nulls(len(column), pa.int64())
        return wide.cast(pa.int64()).combine_chunks()
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return _scaled(column.cast(pa.int64()).combine_chunks(), unit)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return _fractions(column, unit)
    return _times_from_text(column.cast(pa.string()), unit)


def _scaled(values: pa.Array, unit: str | None) -> pa.Array:
    factor = UNITS_NS[unit or _unit_of(values.to_numpy(zero_copy_only=False))]
    limit = (2**62) // factor
    fits = pc.and_(pc.less(values, limit), pc.greater(values, -limit))
    return pc.multiply(pc.if_else(fits, values, None), factor)


def _fractions(column: pa.ChunkedArray, unit: str | None) -> pa.Array:
    values = numbers(column)
    return _whole(values * UNITS_NS[unit or _unit_of(values)])


def _unit_of(values: np.ndarray[Any, Any]) -> str:
    """Return the unit of times since 1970, by their size; s where they are small."""
    known = np.abs(values[~pd.isna(values)].astype(np.float64))
    middle = float(np.median(known)) if known.size else 0.0
    return next((unit for size, unit in _SIZES if middle >= size), "s")


def _times_from_text(column: pa.ChunkedArray, unit: str | None) -> pa.Array:
    """Return times from text: decimal numbers, exact to the ns, or ISO 8601."""
    text = pc.utf8_trim_whitespace(column.combine_chunks())
    text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
    is_number = pc.fill_null(pc.match_substring_regex(text, r"^-?\d{1,19}(\.\d+)?$"), False)
    if not pc.any(is_number).as_py():
        return _iso(text)
    whole = pc.if_else(is_number, pc.replace_substring_regex(text, r"\..*$", ""), None)
    values = pd.to_numeric(whole.to_pandas(), errors="coerce").astype("Int64")
    wide = pa.array(values, type=pa.int64())
    chosen = unit or _unit_of(values.to_numpy(np.float64, na_value=np.nan))
    fraction = pc.if_else(is_number, pc.extract_regex(text, r"(?P<f>\.\d+)?$").field(0), None)
    rest = pd.to_numeric(("0" + fraction.to_pandas()).replace("0", "0.0"), errors="coerce")
    below = np.rint(np.nan_to_num(rest.to_numpy(np.float64)) * UNITS_NS[chosen]).astype(np.int64)
    return pc.coalesce(
        pc.add(_scaled(wide, chosen), below), _iso(pc.if_else(is_number, None, text))
    )


def _iso(text: pa.Array) -> pa.Array:
    series = pd.to_datetime(text.to_pandas(), errors="coerce", utc=True, format="ISO8601")
    bad = series.isna().to_numpy()
    return pa.array(np.where(bad, 0, series.dt.as_unit("ns").astype("int64").to_numpy()), mask=bad)


def addresses(column: pa.ChunkedArray) -> pa.Array:
    """Return addresses as text in one notation; empty text is null."""
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    names = pa.array([plain_address(one) for one in coded.dictionary.to_pylist()], pa.string())
    return pc.take(names, coded.indices)


@lru_cache(maxsize=1 << 16)
def plain_address(text: str | None) -> str | None:
    """Return an address in one notation; other text as it is.

    >>> plain_address("::ffff:10.0.0.1"), plain_address("FD00::0:1"), plain_address(" gpu-7 ")
    ('10.0.0.1', 'fd00::1', 'gpu-7')
    """
    stripped = (text or "").strip()
    if not stripped or stripped == "-":
        return None
    try:
        address = ipaddress.ip_address(stripped)
    except ValueError:
        return stripped
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def protocols(column: pa.ChunkedArray) -> pa.Array:
    """Return IP protocol numbers from numbers or names; null for what is neither."""
    texts = column.cast(pa.string()).to_pylist()
    known: dict[str | None, int | None] = {text: _protocol(text) for text in set(texts)}
    return pa.array([known[text] for text in texts], pa.int32())


def _protocol(text: str | None) -> int | None:
    stripped = (text or "").strip().lower()
    if stripped.isdecimal() and len(stripped) <= 3:
        return int(stripped)
    return PROTOCOLS.get(stripped)
