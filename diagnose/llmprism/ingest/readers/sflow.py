"""sFlow version 5 datagrams, raw or captured: sampled packets become estimated records.

A sample is the head of one packet in N, so that its sizes stand for N packets. Samples of one
flow become records as captured packets do; between two samples the flow may have been silent
or not, so the records show volumes and not silences. A datagram tells the agent's uptime only:
without a capture, which has times of arrival, times count from the agent's start.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from llmprism.ingest.datagrams import Datagram, Protocol, datagrams, holds
from llmprism.ingest.flow_cache import FlowCache, address_text
from llmprism.ingest.options import Options
from llmprism.ingest.packets import Packet, Packets
from llmprism.ingest.readers import register
from llmprism.ingest.sources import Source
from llmprism.io.notes import Notes

BROKEN = "sFlow datagram that does not fit its lengths"
_FLOW_SAMPLE, _EXPANDED_SAMPLE, _RAW_HEADER = 1, 3, 1
_LINK_TYPES = {1: 1, 7: 9, 11: 101, 12: 101, 13: 219}  # of Ethernet, PPP, IPv4, IPv6, MPLS
_MOST_SAMPLES = 2_000
_LARGEST_RATE = 1 << 24


def datagram_length(content: bytes) -> int:
    """Return how long the datagram at the start of some bytes is; 0 if there is none."""
    version, family = struct.unpack_from(">II", content)
    if version != 5 or family not in (1, 2):
        return 0
    place = 8 + (4 if family == 1 else 16) + 12
    count = struct.unpack_from(">I", content, place)[0]
    place += 4
    if not 0 < count <= _MOST_SAMPLES:
        return 0
    for _ in range(count):
        place += 8 + struct.unpack_from(">I", content, place + 4)[0]
    return place if place <= len(content) else 0


PROTOCOL = Protocol(datagram_length, (b"\0\0\0\5",))


def _recognises(head: bytes, _name: str) -> bool:
    return holds(head, PROTOCOL)


@register("sflow", "sFlow v5 datagrams, raw or captured", _recognises)
def read(source: Source, options: Options, notes: Notes) -> Iterator[pa.Table]:
    """Yield the records that samples show."""
    cache, packets = FlowCache(options, notes), Packets()
    notes.remark(f"{source}: sFlow samples packets; sizes are estimates, silences do not show")
    for datagram in datagrams(source, PROTOCOL, notes):
        try:
            _add(datagram, cache, packets, notes)
        except struct.error:
            notes.drop(BROKEN)
        yield from cache.batches()
    yield from cache.rest()


def _add(datagram: Datagram, cache: FlowCache, packets: Packets, notes: Notes) -> None:
    content = datagram.content
    version, family = struct.unpack_from(">II", content)
    if version != 5 or family not in (1, 2):
        notes.drop("datagram that is no sFlow version 5")
        return
    size = 4 if family == 1 else 16
    agent = address_text(content[8 : 8 + size]) if len(content) >= 8 + size else ""
    _, _, uptime_ms, count = struct.unpack_from(">IIII", content, 8 + size)
    time_ns = datagram.arrival_ns
    if time_ns is None:
        time_ns = uptime_ms * 1_000_000
        notes.remark(
            "sFlow without a capture has no wall clock: times count from the agent's start"
        )
    place = 24 + size
    for _ in range(min(count, _MOST_SAMPLES)):
        kind, length = struct.unpack_from(">II", content, place)
        body = content[place + 8 : place + 8 + length]
        if kind in (_FLOW_SAMPLE, _EXPANDED_SAMPLE):
            for packet, rate in _samples(body, kind == _EXPANDED_SAMPLE, packets, notes):
                cache.add(packet, time_ns, agent, rate)
        else:
            notes.drop("sFlow sample of counters, which shows no flow")
        place += 8 + length


def _samples(
    body: bytes, is_expanded: bool, packets: Packets, notes: Notes
) -> Iterator[tuple[Packet, int]]:
    """Yield the sampled packet and its rate.

    Two words of a compact sample are four of an expanded one.
    """
    rate = struct.unpack_from(">I", body, 12 if is_expanded else 8)[0]
    place = 40 if is_expanded else 28
    has_header = False
    for _ in range(struct.unpack_from(">I", body, place)[0]):
        kind, length = struct.unpack_from(">II", body, place + 4)
        record = body[place + 12 : place + 12 + length]
        place += 8 + length
        if kind != _RAW_HEADER:
            continue
        has_header = True
        protocol, frame_length, _, header_length = struct.unpack_from(">IIII", record)
        head = record[16 : 16 + header_length]
        packet = packets.decode(_LINK_TYPES.get(protocol, -protocol), head, frame_length)
        if isinstance(packet, str):
            notes.drop(packet)
        else:
            yield packet, min(max(rate, 1), _LARGEST_RATE)
    if not has_header:
        notes.drop("sFlow sample without a packet's head")
