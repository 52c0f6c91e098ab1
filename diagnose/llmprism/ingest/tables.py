"""From any table with named columns to batches of records.

:mod:`llmprism.ingest.columns` says which column is which, :mod:`llmprism.ingest.times` reads times
and durations. Addresses are written in one way: an IPv4 address that is mapped into IPv6 becomes
plain IPv4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llmprism.ingest.bounds import EARLIEST_NS, LONGEST_TEXT, as_int64, column
from llmprism.ingest.columns import unit_in
from llmprism.ingest.options import Options
from llmprism.ingest.records import batch, scaled
from llmprism.ingest.times import durations_ns, numbers, times_ns
from llmprism.network.hosts import plain_address

PROTOCOLS = {"icmp": 1, "igmp": 2, "tcp": 6, "udp": 17, "gre": 47, "esp": 50, "ipv6-icmp": 58}
PROTOCOLS |= {"icmp6": 58, "icmpv6": 58, "sctp": 132, "udplite": 136}
_COUNTS = ("bytes", "packets", "payload")
_SMALL = ("src_port", "dst_port", "dst_qp", "sampling")
_SMALL_BITS = 31
_BACK = ("bytes_back", "packets_back")
_SWAPPED = {"src": "dst", "dst": "src", "src_port": "dst_port", "dst_port": "src_port"}


def convert(
    table: pa.Table, chosen: Mapping[str, str], options: Options, has_wall_clock: bool = False
) -> pa.Table:
    """Return a batch from a table's columns; a value that cannot be read becomes null.

    Parameters
    ----------
    chosen : the table's column for each of ours.
    has_wall_clock : the times are those of a clock that is set: 0 and all before 1990 are none.

    Counts are multiplied by the rates of a column ``sampling_rate``, which exporters and
    collectors write beside what they counted; a column ``sampling`` tells that this is done.
    """
    columns: dict[str, Any] = {
        ours: integers(table[chosen[ours]]) for ours in _COUNTS if ours in chosen
    }
    columns |= {
        ours: integers(table[chosen[ours]], _SMALL_BITS) for ours in _SMALL if ours in chosen
    }
    columns |= {
        ours: addresses(table[chosen[ours]])
        for ours in ("src", "dst", "observer")
        if ours in chosen
    }
    if "path" in chosen:
        columns["path"] = _short(table[chosen["path"]])
    if "protocol" in chosen:
        columns["protocol"] = protocols(table[chosen["protocol"]])
    for ours, times in zip(("start_ns", "end_ns"), _times(table, chosen, options), strict=True):
        columns[ours] = _set(times) if has_wall_clock else times
    found = batch(columns)
    return found if chosen.get("sampling", "sampling") == "sampling" else scaled(found)


def convert_both(
    table: pa.Table, chosen: Mapping[str, str], options: Options
) -> Iterator[pa.Table]:
    """Yield batches of both directions, if the table has the counts of the other one."""
    there = {ours: column for ours, column in chosen.items() if ours not in _BACK}
    yield convert(table, there, options)
    if "bytes_back" in chosen:
        back = {**there, "bytes": chosen["bytes_back"]}
        back |= {"packets": chosen["packets_back"]} if "packets_back" in chosen else {}
        back |= {ours: there[theirs] for ours, theirs in _SWAPPED.items() if theirs in there}
        batch = convert(table, back, options)
        yield batch.filter(pc.fill_null(pc.greater(batch["bytes"], 0), False))


def _times(
    table: pa.Table, chosen: Mapping[str, str], options: Options
) -> tuple[pa.Array, pa.Array]:
    """Return starts and ends: given, or start and duration; without either, an instant."""

    def unit(ours: str) -> str | None:
        return unit_in(chosen[ours]) or options.time_unit

    start = times_ns(table[chosen["start_ns"]], unit("start_ns"))
    if "end_ns" in chosen:
        return start, times_ns(table[chosen["end_ns"]], unit("end_ns"))
    if "duration" not in chosen:
        return start, start
    return start, pc.add(start, durations_ns(table[chosen["duration"]], unit("duration")))


def _set(times: pa.Array) -> pa.Array:
    return pc.if_else(pc.less(times, EARLIEST_NS), None, times)


def integers(values: pa.ChunkedArray, bits: int = 63) -> pa.Array:
    """Return whole numbers of at most ``bits`` bits; null for what is none, such as a fraction."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return integers(values.cast(kind.value_type), bits)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        missing = values.is_null().to_numpy()
        given = pc.fill_null(values, 0).to_numpy()
        found, bad = as_int64(given)
        bad |= missing | (found != given)
    else:
        text = pc.utf8_trim_whitespace(values.cast(pa.string()).combine_chunks())
        text = text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text
        whole, rest, bad = numbers(text)
        found, beyond = as_int64(whole)
        bad |= beyond | (rest != 0)
    return column(found, bad | (np.abs(found) >= 2**bits))


def addresses(column: pa.ChunkedArray) -> pa.Array:
    """Return addresses as text in one notation; empty text is null."""
    return each_once(_short(column), plain_address, pa.string())


def each_once(
    column: pa.ChunkedArray, value: Callable[[str | None], Any], kind: pa.DataType
) -> pa.Array:
    """Return what each text is replaced by, found once for all that are equal."""
    coded = column.combine_chunks().dictionary_encode("encode")
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return pc.take(
        pa.array([value(one) for one in coded.dictionary.to_pylist()], kind), coded.indices
    )


def _short(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text without values that are too long to be a name; they become null."""
    text = column.cast(pa.string())
    return pc.if_else(pc.greater(pc.binary_length(text), LONGEST_TEXT), None, text)


def protocols(column: pa.ChunkedArray) -> pa.Array:
    """Return IP protocol numbers from numbers or names; null for what is neither."""
    return each_once(column.cast(pa.string()), _protocol, pa.int32())


def _protocol(text: str | None) -> int | None:
    stripped = (text or "").strip().lower()
    if stripped.isdecimal() and len(stripped) <= 3:
        return int(stripped)
    return PROTOCOLS.get(stripped)
