"""Records of a template, as NetFlow v9 (RFC 3954) and IPFIX (RFC 7011) have them.

A template lists information elements with their lengths. Records are these values one after
another in network byte order, so a structured array of numpy is a data set as it is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
