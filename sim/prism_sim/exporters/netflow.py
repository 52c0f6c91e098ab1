"""NetFlow v9 (RFC 3954) and IPFIX (RFC 7011): packets with one template, one after another.

A template lists information elements with their lengths. Records are these values one after
another in network byte order, so a structured array of numpy is a data set as it is sent. Times of
NetFlow v9 are in ms of the exporter's uptime, those of IPFIX in nanoseconds (a file of RFC 5655).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import IO, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prism_sim.exporters.base import Exporter, prepared

TEMPLATE_ID = 256
_RECORDS = 24  # of a datagram: less than 1,400 bytes


class Element(NamedTuple):
    """An information element: its number, and its type as numpy has it."""

    number: int
    kind: str


COMMON: Mapping[str, Element] = {
    "src_ip": Element(8, ">u4"),
    "dst_ip": Element(12, ">u4"),
    "src_port": Element(7, ">u2"),
    "dst_port": Element(11, ">u2"),
    "protocol": Element(4, "u1"),
    "bytes": Element(1, ">u8"),
    "packets": Element(2, ">u8"),
}
"""Elements of every record, by the column that has their values."""


def template(elements: Mapping[str, Element]) -> bytes:
    """A template record."""
    fields = b"".join(
        struct.pack(">HH", each.number, np.dtype(each.kind).itemsize) for each in elements.values()
    )
    return struct.pack(">HH", TEMPLATE_ID, len(elements)) + fields


def a_set(number: int, content: bytes) -> bytes:
    """A set (IPFIX) or flow set (NetFlow) with its header, filled up to four bytes."""
    content += bytes(-len(content) % 4)
    return struct.pack(">HH", number, len(content) + 4) + content


def records(rows: pd.DataFrame, elements: Mapping[str, Element]) -> NDArray[np.void]:
    """The records of a template, shape (rows,)."""
    kind = np.dtype([(name, each.kind) for name, each in elements.items()])
    out = np.empty(len(rows), dtype=kind)
    for name in elements:
        out[name] = rows[name].to_numpy()
    return out


def chunks(packed: NDArray[np.void]) -> Iterator[tuple[int, int, bytes]]:
    """The data sets of one datagram each: index of their first and last record, and content."""
    for first in range(0, len(packed), _RECORDS):
        part = packed[first : first + _RECORDS]
        yield first, first + len(part) - 1, a_set(TEMPLATE_ID, part.tobytes())


_V9_ELEMENTS = {**COMMON, "end_ms": Element(21, ">u4"), "start_ms": Element(22, ">u4")}
_V9_TEMPLATES = 0  # number of their flow set
_MS_NS, _SECOND_MS = 10**6, 1000


def _v9_packet(uptime_ms: int, boot_ms: int, sequence: int, count: int, content: bytes) -> bytes:
    """A packet that is sent in the next full second, so that its two clocks agree."""
    now_s = -(-(boot_ms + uptime_ms) // _SECOND_MS)
    uptime_ms = now_s * _SECOND_MS - boot_ms
    return struct.pack(">HHIIII", 9, count, uptime_ms, now_s, sequence, 1) + content


class Netflow9(Exporter):
    """Packets with one template."""

    name = "netflow9"
    about = "packets of NetFlow v9; times in ms"
    suffix = ".nf9"

    def write(self, flows: pd.DataFrame, out: IO[bytes], sampling: int) -> None:
        if not len(flows):
            return
        flows = prepared(flows)
        boot_ms = int(flows["start_ns"].min() // _MS_NS) - _SECOND_MS
        since_ms = {name: flows[f"{name}_ns"] // _MS_NS - boot_ms for name in ("start", "end")}
        rows = flows.assign(start_ms=since_ms["start"], end_ms=since_ms["end"])
        ends_ms = since_ms["end"].to_numpy()
        out.write(
            _v9_packet(int(ends_ms[0]), boot_ms, 0, 1, a_set(_V9_TEMPLATES, template(_V9_ELEMENTS)))
        )
        for number, (first, last, content) in enumerate(chunks(records(rows, _V9_ELEMENTS)), 1):
            out.write(_v9_packet(int(ends_ms[last]), boot_ms, number, last - first + 1, content))


_IPFIX_ELEMENTS = {**COMMON, "start_ntp": Element(156, ">u8"), "end_ntp": Element(157, ">u8")}
_IPFIX_TEMPLATES = 2  # number of their set
_NTP_EPOCH_S = 2_208_988_800  # of 1970, since 1900
_SECOND_NS = 10**9


def _ntp(times_ns: pd.Series) -> pd.Series:
    """Seconds since 1900 in the upper half, and a binary fraction, rounded up, in the lower one."""
    seconds, rest = np.divmod(times_ns.to_numpy(np.uint64), np.uint64(_SECOND_NS))
    fraction = -(-(rest.astype(object) << 32) // _SECOND_NS)
    whole = (seconds + np.uint64(_NTP_EPOCH_S)) << np.uint64(32)
    return pd.Series(whole + fraction.astype(np.uint64), times_ns.index)


def _message(time_s: int, sequence: int, content: bytes) -> bytes:
    return struct.pack(">HHIII", 10, 16 + len(content), time_s, sequence, 1) + content


def ipfix_messages(flows: pd.DataFrame, sequence: int = 0) -> Iterator[bytes]:
    """The messages of flow records: their template first, then records in their order.

    ``sequence`` is the number of records that the exporter has sent before; the template comes only
    if there are none.
    """
    flows = prepared(flows)
    rows = flows.assign(start_ntp=_ntp(flows["start_ns"]), end_ntp=_ntp(flows["end_ns"]))
    ends_s = (flows["end_ns"] // _SECOND_NS).to_numpy()
    if not sequence:
        yield _message(int(ends_s[0]), 0, a_set(_IPFIX_TEMPLATES, template(_IPFIX_ELEMENTS)))
    for first, last, content in chunks(records(rows, _IPFIX_ELEMENTS)):
        yield _message(int(ends_s[last]), (sequence + first) % 2**32, content)


class Ipfix(Exporter):
    """Messages with one template."""

    name = "ipfix"
    about = "messages of IPFIX; times in ns"
    suffix = ".ipfix"

    def write(self, flows: pd.DataFrame, out: IO[bytes], sampling: int) -> None:
        if len(flows):
            out.writelines(ipfix_messages(flows))
