"""Export datagrams as files that readers take: captures, as ``tcpdump`` would write them.

Exporters of NetFlow v9 and IPFIX send templates seldom. So those of every exporter are kept in a
file, and each capture begins with them.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path

from llmprism.ingest.datagrams import datagrams
from llmprism.ingest.readers.netflow import PROTOCOL
from llmprism.ingest.sources import Source as File
from llmprism.io.notes import Notes
from llmprism.watch.sources.templates import Templates
from llmprism.watch.state_folder import write_durably
from prism_common.untrusted import whole

NETFLOW, SFLOW = ".netflow.pcap", ".sflow.pcap"
"""Suffixes of the captures of each protocol."""

_START_OF_SFLOW = b"\0\0\0\5"
_LARGEST = 65_535
_LONGEST = _LARGEST - 28  # bytes in a datagram: without the headers of IP and UDP
_LATEST_NS = (1 << 32) * 1_000_000_000 - 1  # the seconds of a capture have 32 bits
_KEEP_S = 1.0  # between two writings of the templates
_HEAD = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, _LARGEST, 101)  # pcap: ns, raw IP
_MAPPED = bytes(10) + b"\xff\xff"  # before an IPv4 address in 16 bytes


class Captured:
    """Writes datagrams that are sent to ``port``, and keeps their templates in ``memory``."""

    def __init__(self, memory: Path, port: int) -> None:
        self._memory, self._port = memory, port
        self._templates = Templates()
        self._is_changed, self._kept_s = False, float("-inf")
        if memory.exists():
            for one in datagrams(File(memory), PROTOCOL, Notes()):
                self._templates.learn(_plain(one.exporter), one.content)

    def head(self, suffix: str) -> bytes:
        """The first bytes of a capture: with the templates, if it needs them."""
        known = self._templates.datagrams() if suffix == NETFLOW else []
        return _HEAD + b"".join(self._packet(*one, 0) for one in known)

    def packet(self, exporter: bytes, content: bytes, time_ns: int) -> tuple[str, bytes]:
        """The suffix of the capture of a datagram, and the datagram as a packet of it.

        Raises
        ------
        OutsideError : it is no datagram, or its time is none.
        """
        exporter = _plain(exporter)
        suffix = SFLOW if content.startswith(_START_OF_SFLOW) else NETFLOW
        packet = self._packet(exporter, content, time_ns)
        if suffix == NETFLOW:
            self._is_changed |= self._templates.learn(exporter, content)
        return suffix, packet

    def keep(self) -> None:
        """Write the templates to the disk, if any is new, and not more often than once a second.

        Raises
        ------
        OSError : the disk does not take them.
        """
        if self._is_changed and time.monotonic() >= self._kept_s + _KEEP_S:
            self._kept_s = time.monotonic()
            write_durably(self._memory, self.head(NETFLOW))
            self._is_changed = False

    def _packet(self, exporter: bytes, content: bytes, time_ns: int) -> bytes:
        """A datagram with its time of arrival and the headers of IP and UDP."""
        whole(time_ns, 0, _LATEST_NS)
        port, size = self._port, whole(len(content), 0, _LONGEST) + 8
        udp = struct.pack(">HHHH", port, port, size, 0) + content
        if len(exporter) == 4:
            head = struct.pack(">BBHHHBBH", 0x45, 0, size + 20, 0, 0, 64, 17, 0)
        else:
            head = struct.pack(">IHBB", 6 << 28, size, 17, 64)
        packet = head + exporter + bytes(len(exporter)) + udp
        size = len(packet)
        return struct.pack("<IIII", *divmod(time_ns, 1_000_000_000), size, size) + packet


def _plain(exporter: bytes) -> bytes:
    """An address as it is sent from: IPv4 in 4 bytes."""
    return exporter[12:] if exporter.startswith(_MAPPED) and len(exporter) == 16 else exporter
