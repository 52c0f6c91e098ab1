"""sFlow version 5 as a capture of the collector's port: the heads of one packet in N.

The packets of a record are spread evenly between its start and its end. A datagram holds one
sample and arrives when its packet passes, so that the capture has the times.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address
from typing import IO

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prism_sim.exporters.base import Exporter, prepared

_AGENT, _COLLECTOR = int(IPv4Address("192.0.2.1")), int(IPv4Address("192.0.2.2"))
_PORT = 6343
_UDP = 17
_SECOND_NS, _MS_NS = 10**9, 10**6
_CAPTURE = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 101)  # times in ns, raw IP
_FLOW_SAMPLE, _RAW_HEADER, _IPV4 = 1, 1, 11


def _ip(src: int, dst: int, protocol: int, size: int) -> bytes:
    return struct.pack(">BBHHHBBHII", 0x45, 0, size & 0xFFFF, 0, 0, 64, protocol, 0, src, dst)


def _sample(sequence: int, sampling: int, head: bytes, size: int) -> bytes:
    record = struct.pack(">IIII", _IPV4, size, 0, len(head)) + head
    body = struct.pack(">IIIIIIII", sequence, 1, sampling, sequence * sampling, 0, 1, 2, 1)
    body += struct.pack(">II", _RAW_HEADER, len(record)) + record
    return struct.pack(">II", _FLOW_SAMPLE, len(body)) + body


def _datagram(sequence: int, uptime_ms: int, sample: bytes) -> bytes:
    return struct.pack(">IIIIIII", 5, 1, _AGENT, 0, sequence, uptime_ms, 1) + sample


def _captured(time_ns: int, content: bytes) -> bytes:
    udp = struct.pack(">HHHH", 50_000, _PORT, len(content) + 8, 0) + content
    packet = _ip(_AGENT, _COLLECTOR, _UDP, len(udp) + 20) + udp
    return struct.pack("<IIII", *divmod(time_ns, _SECOND_NS), len(packet), len(packet)) + packet


def sampled(flows: pd.DataFrame, sampling: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The records of one packet in ``sampling``, and the times at which these pass [ns]."""
    after = flows["packets"].cumsum().to_numpy()
    chosen = np.arange(sampling // 2, after[-1], sampling)
    row = np.searchsorted(after, chosen, side="right")
    count = flows["packets"].to_numpy()[row]
    part = (chosen - (after[row] - count) + 0.5) / count
    start_ns, end_ns = (flows[name].to_numpy()[row] for name in ("start_ns", "end_ns"))
    time_ns = start_ns + np.round(part * (end_ns - start_ns)).astype(np.int64)
    order = np.argsort(time_ns, kind="stable")
    return row[order], time_ns[order]


class Sflow(Exporter):
    """Datagrams in a capture."""

    name = "sflow"
    about = "a capture of sFlow v5; one packet in N, times in ns"
    suffix = ".pcap"

    def write(self, flows: pd.DataFrame, out: IO[bytes], sampling: int) -> None:
        out.write(_CAPTURE)
        if not len(flows):
            return
        flows = prepared(flows)
        size = (flows["bytes"] // flows["packets"]).to_numpy()
        names = ("src_ip", "dst_ip", "protocol", "src_port", "dst_port")
        ends = [flows[name].to_numpy() for name in names]
        began_ns = int(flows["start_ns"].min())
        for sequence, (row, time_ns) in enumerate(zip(*sampled(flows, sampling), strict=True), 1):
            src, dst, protocol, src_port, dst_port = (int(column[row]) for column in ends)
            length = int(size[row])
            head = _ip(src, dst, protocol, length)
            head += struct.pack(">HHHH", src_port, dst_port, (length - 20) & 0xFFFF, 0)
            uptime_ms = (int(time_ns) - began_ns) // _MS_NS
            sample = _sample(sequence, sampling, head, length)
            out.write(_captured(int(time_ns), _datagram(sequence, uptime_ms, sample)))
