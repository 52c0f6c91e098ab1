"""From packets to flow records, as an exporter does it.

A record ends when its flow is silent for the idle gap, or has lasted the active timeout. The
cache holds open flows in order of their last packet, so that those which are silent are at
its front: each packet costs a few steps, and memory holds open flows only.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa

from llmprism.ingest.options import Options
from llmprism.ingest.packets import Packet
from llmprism.ingest.records import BatchBuilder
from llmprism.io.notes import Notes

_MOST_OPEN = 1 << 20  # flows; the one silent longest is ended early
_CHECK_PACKETS = 256  # how often flows that are silent are ended
_COLUMNS = (
    "src", "dst", "src_port", "dst_port", "protocol", "dst_qp", "observer", "start_ns",
    "end_ns", "bytes", "packets", "payload", "sampling",
)  # fmt: skip


class _Open:
    """A record that is still growing."""

    __slots__ = ("bytes", "last", "packets", "payload", "sampling", "start")

    def __init__(self, time_ns: int, sampling: int) -> None:
        self.start = self.last = time_ns
        self.bytes = self.packets = self.payload = 0
        self.sampling = sampling


class FlowCache:
    """Turns packets into records; ``batches`` and ``rest`` yield them."""

    def __init__(self, options: Options, notes: Notes) -> None:
        self._idle = options.idle_gap_ns
        self._active = options.active_timeout_ns
        self._notes = notes
        self._open: OrderedDict[tuple[tuple[bytes, bytes, int, int, int, int], str], _Open]
        self._open = OrderedDict()
        self._done = BatchBuilder(_COLUMNS)
        self._since_check = 0
        notes.idle_gap_ns.add(self._idle)
        notes.active_timeout_ns.add(self._active)

    def add(self, packet: Packet, time_ns: int, point: str, sampling: int = 1) -> None:
        """Count one packet, which stands for ``sampling`` packets."""
        key = (packet.flow, point)
        flow = self._open.get(key)
        if flow is not None and self._ends(flow, time_ns):
            self._close(key, flow)
            flow = None
        if flow is None:
            flow = self._open[key] = _Open(time_ns, sampling)
        self._open.move_to_end(key)
        flow.start, flow.last = min(flow.start, time_ns), max(flow.last, time_ns)
        flow.sampling = max(flow.sampling, sampling)
        flow.packets += sampling
        flow.bytes += packet.size * sampling
        if packet.payload < 0 or flow.payload < 0:
            flow.payload = -1
        else:
            flow.payload += packet.payload * sampling
        self._since_check += 1
        if self._since_check >= _CHECK_PACKETS:
            self._since_check = 0
            self._end_silent(time_ns)

    def batches(self) -> Iterator[pa.Table]:
        """Yield the records that ended, if there are enough for a batch."""
        yield from self._done.full()

    def rest(self) -> Iterator[pa.Table]:
        """End all records and yield what was not handed on yet."""
        while self._open:
            self._close(*next(iter(self._open.items())))
            yield from self._done.full()
        yield from self._done.rest()

    def _ends(self, flow: _Open, time_ns: int) -> bool:
        if time_ns < flow.start - self._idle:
            self._notes.remark("a clock jumps back: records that began before are ended there")
            return True
        return time_ns - flow.last > self._idle or time_ns - flow.start > self._active

    def _end_silent(self, now_ns: int) -> None:
        while self._open:
            key, flow = next(iter(self._open.items()))
            if now_ns - flow.last <= self._idle and len(self._open) <= _MOST_OPEN:
                return
            self._close(key, flow)

    def _close(self, key: tuple[tuple[bytes, bytes, int, int, int, int], str], flow: _Open) -> None:
        del self._open[key]
        (source, target, source_port, target_port, protocol, queue_pair), point = key
        self._done.add(
            address_text(source),
            address_text(target),
            _known(source_port),
            _known(target_port),
            protocol,
            _known(queue_pair),
            point or None,
            flow.start,
            flow.last,
            flow.bytes,
            flow.packets,
            _known(flow.payload),
            flow.sampling,
        )


def _known(value: int) -> int | None:
    return None if value < 0 else value


@lru_cache(maxsize=1 << 16)
def address_text(raw: bytes) -> str:
    """Return an address of 4 or 16 bytes as text; IPv4 that is mapped into IPv6 as IPv4.

    >>> address_text(bytes([10, 0, 0, 1])), address_text(bytes(15) + bytes([1]))
    ('10.0.0.1', '::1')
    """
    address = ipaddress.ip_address(raw)
    return str(getattr(address, "ipv4_mapped", None) or address)
