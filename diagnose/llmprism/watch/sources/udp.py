"""A UDP port to which exporters send NetFlow v5 and v9, IPFIX and sFlow.

A thread receives the datagrams and writes them as captures, with the address of the exporter and
the time of arrival, as ``tcpdump`` would. The kernel counts the datagrams that it drops because its
buffer is full, and tells with each later one (``SO_RXQ_OVFL``, Linux).
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmprism.watch.logging import reason_of
from llmprism.watch.sources import Taken, register
from llmprism.watch.sources.captured import NETFLOW, SFLOW, Captured
from llmprism.watch.sources.directory import Directory
from llmprism.watch.sources.spool import Spool, own_spool
from prism_common.errors import Problem, UserError

_BUFFER_BYTES = 1 << 26
_LARGEST = 65_535
_OVERFLOWS = 40  # SO_RXQ_OVFL of Linux
_WAIT_S = 0.2


class UdpPort:
    """Datagrams that a thread puts into files."""

    def __init__(self, host: str, port: int, folder: Path) -> None:
        self._socket = _bound(host, port)
        self._port: int = self._socket.getsockname()[1]
        self._captured = Captured(folder / ".templates", self._port)
        self._spools = {
            suffix: Spool(folder, suffix, partial(self._captured.head, suffix))
            for suffix in (NETFLOW, SFLOW)
        }
        self._files = Directory(folder, own_spool(folder))
        self._dropped = self._lost = 0
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def take(self, position: Any, wait_s: float) -> Taken:
        """Return the datagrams that have come."""
        taken = self._files.take(position, wait_s)
        return Taken(taken.files, taken.position, dropped=self._dropped + self._lost)

    def stored(self, taken: Taken) -> None:
        """Remove the files."""
        self._files.stored(taken)

    def close(self) -> None:
        """Stop receiving; what has come waits in files."""
        self._is_closed.set()
        self._thread.join(5)
        self._socket.close()

    def _receive(self) -> None:
        while not self._is_closed.is_set():
            try:
                content, extra, _, sender = self._socket.recvmsg(_LARGEST, 64)
            except TimeoutError:
                content = b""
            for level, kind, data in extra if content else ():
                if (level, kind) == (socket.SOL_SOCKET, _OVERFLOWS):
                    self._dropped = struct.unpack("I", data[:4])[0]
            try:
                if content:
                    self._put(ip_address(sender[0].partition("%")[0]).packed, content)
                self._captured.keep()
                for spool in self._spools.values():
                    spool.rotate_if_due()
            except OSError:  # the disk is full, or too much waits
                self._lost += bool(content)
        with contextlib.suppress(OSError):
            self._captured.keep()
        for spool in self._spools.values():
            with contextlib.suppress(OSError):
                spool.rotate()

    def _put(self, exporter: bytes, content: bytes) -> None:
        suffix, packet = self._captured.packet(exporter, content, time.time_ns())
        self._spools[suffix].write(packet)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM)
    with contextlib.suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    with contextlib.suppress(OSError):
        made.setsockopt(socket.SOL_SOCKET, _OVERFLOWS, 1)
    made.settimeout(_WAIT_S)
    try:
        made.bind((host, port))
    except (OSError, UnicodeError) as error:  # the latter: of a name that no host can have
        made.close()
        what = f"cannot receive on {host or 'any address'}, port {port}: {reason_of(error)}"
        raise UserError(Problem(what, "SOURCE", "name another port")) from error
    return made


@register("udp", "udp://HOST:PORT (NetFlow, IPFIX, sFlow)", lambda text: text.startswith("udp://"))
def open_udp(text: str, folder: Path) -> UdpPort:
    """Open a port; without a host, on all addresses of this machine."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        port = None
    if port is None:
        raise UserError(Problem("there is no port in it", text, "write it as udp://0.0.0.0:2055"))
    return UdpPort(host, port, folder / "spool")
