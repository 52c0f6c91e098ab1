"""pcap and pcapng: packets become flow records.

The observation point is the mirroring switch of ERSPAN, or the interface where a capture has
several, or else the file.

A capture on a bond and its slaves, or of a mirror of both directions, has each packet twice within
microseconds. A packet equals another one if all of its IP packet does, apart from what a router
changes; IDs of IP, sequence numbers of TCP and RoCE make a repetition of a transfer differ, or come
later. It counts once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import pyarrow as pa

from llmprism.ingest.captures import Frame, frames, is_capture
from llmprism.ingest.datagrams import count_datagrams
from llmprism.ingest.flow_cache import FlowCache, address_text
from llmprism.ingest.links import IPV4, IPV6, network
from llmprism.ingest.options import Options
from llmprism.ingest.packets import Packets
from llmprism.ingest.readers import netflow, register, sflow
from llmprism.ingest.sources import Source
from llmprism.io.notes import Notes

TWICE = "packet that was captured twice"
REMARK = (
    "packets were captured twice within microseconds, as on a bond and its slave or by a mirror of "
    "both directions: each counts once"
)
_TOGETHER_NS = 50_000  # between two sights of one packet; a retransmission takes a round trip
_MOST = 1 << 16  # packets of that time


class _Seen:
    """The packets of the last microseconds, by their content."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, int], int] = OrderedDict()

    def again(self, frame: Frame) -> bool:
        """Whether a packet was captured a moment before."""
        place = network(frame.link_type, frame.content)
        if isinstance(place, str) or place[0] not in (IPV4, IPV6):
            return False
        packet = frame.content[place[1] :]
        is_v4 = place[0] == IPV4
        protocol = packet[9:10] if is_v4 else packet[6:7]
        has_number = protocol == b"\x06" or b"\x12\xb7" in packet[20:48]  # TCP, port of RoCE
        if not has_number and not (is_v4 and any(packet[4:6])):
            return False
        fixed = packet[:8] + packet[9:10] + packet[12:] if is_v4 else packet[:7] + packet[8:]
        key = (frame.interface, hash(fixed))
        before = self._last.pop(key, None)
        self._last[key] = frame.time_ns
        if len(self._last) > _MOST:
            self._last.popitem(last=False)
        return before is not None and 0 <= frame.time_ns - before <= _TOGETHER_NS


def _recognises(head: bytes, _name: str) -> bool:
    return is_capture(head)


@register("pcap", "pcap and pcapng, mirrored packets (ERSPAN) included", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the flow records of a capture."""
    cache, packets = FlowCache(options, notes), Packets()
    for protocol, name in ((netflow.PROTOCOL, "netflow"), (sflow.PROTOCOL, "sflow")):
        if count_datagrams(source.head, protocol).datagrams:
            notes.remark(
                f"{source}: some packets are datagrams of exporters; --format {name} reads those"
            )
    seen = _Seen()
    for frame in frames(source, notes):
        if seen.again(frame):
            notes.drop(TWICE)
            notes.remark(f"{source}: {REMARK}")
            continue
        packet = packets.decode(frame.link_type, frame.content, frame.length)
        if isinstance(packet, str):
            notes.drop(packet)
            continue
        point = address_text(packet.switch) if packet.switch else frame.interface
        cache.add(packet, frame.time_ns, point, options.sampling)
        yield from cache.batches()
    yield from cache.rest()
