"""Exporters that send the records of a simulation as IPFIX datagrams over UDP.

Each leaf is an exporter with an address of its own on the loopback. It sends a record when its flow
has ended. A restart forgets the sequence number, as a switch that boots does, and sends the
template again.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_FIELDS = {8: 4, 12: 4, 7: 2, 11: 2, 4: 1, 1: 8, 2: 8, 156: 8, 157: 8}  # element: length
_RECORD = np.dtype(
    [("src", ">u4"), ("dst", ">u4"), ("src_port", ">u2"), ("dst_port", ">u2"), ("protocol", "u1"),
     ("bytes", ">u8"), ("packets", ">u8"), ("start", ">u8"), ("end", ">u8")]
)  # fmt: skip
_NUMBER, _TOGETHER = 256, 25  # of the template; records in a datagram
_SINCE_1900_S, _NS = 2_208_988_800, 1_000_000_000


@dataclass
class Exporter:
    """One switch; ``host`` is its address on the loopback."""

    host: str
    port: int
    _sequence: int = 0
    _is_new: bool = True
    _socket: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.host, 0))

    def restart(self) -> None:
        """Begin again, as after a boot."""
        self._sequence, self._is_new = 0, True

    def send(self, records: NDArray[Any]) -> int:
        """Send records; return the number of datagrams."""
        count = 0
        for first in range(0, records.size, _TOGETHER):
            part = records[first : first + _TOGETHER]
            body = _set(_NUMBER, part.tobytes())
            if self._is_new:
                body, self._is_new = _template() + body, False
            header = struct.pack(">HHIII", 10, 16 + len(body), _now_s(part), self._sequence, 1)
            self._socket.sendto(header + body, ("127.0.0.1", self.port))
            self._sequence = (self._sequence + part.size) % 2**32
            count += 1
        return count

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def encoded(flows: pd.DataFrame) -> NDArray[Any]:
    """Flow records as IPFIX has them."""
    out = np.zeros(len(flows), _RECORD)
    for name in ("src", "dst"):
        names = flows[name].astype("category")
        numbers = np.array([int(ip_address(one)) for one in names.cat.categories])
        out[name] = numbers[names.cat.codes]
    for name in ("src_port", "dst_port", "protocol", "bytes"):
        out[name] = flows[name]
    out["packets"] = np.maximum(flows["bytes"] // 4096, 1)
    for name, column in (("start", "start_ns"), ("end", "end_ns")):
        seconds, rest = np.divmod(flows[column].to_numpy(np.int64), _NS)
        fraction = ((rest << 32) + _NS - 1) // _NS
        out[name] = ((seconds + _SINCE_1900_S).astype(np.uint64) << np.uint64(32)) + fraction
    return out


def by_exporter(flows: pd.DataFrame, leaf_of: dict[str, str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The records of each leaf."""
    for leaf, own in flows.groupby(flows["src"].astype(str).map(leaf_of)):
        yield str(leaf), own


def _template() -> bytes:
    fields = b"".join(struct.pack(">HH", *one) for one in _FIELDS.items())
    return _set(2, struct.pack(">HH", _NUMBER, len(_FIELDS)) + fields)


def _set(number: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(">HH", number, len(body) + 4) + body


def _now_s(records: NDArray[Any]) -> int:
    return int(records["end"].max() >> np.uint64(32)) - _SINCE_1900_S
