"""What one captured packet says of its flow: addresses, ports, sizes.

Headers are walked from the link (:mod:`llmprism.ingest.links`) to the transport: IPv4, IPv6, TCP,
UDP, and RoCE, whose destination queue pair is a part of what identifies a flow: over UDP (v2), or
behind the global route header of InfiniBand (v1), which has addresses as IPv6 has. A mirrored
packet (ERSPAN I, II and III in GRE) speaks for the packet inside; the outer source is the switch
that saw it. Packets may be cut: sizes come from the IP header.

Only the first fragment of a packet has ports. What it says is kept for a while, so that the
later ones count for the same flow. Those of a mirrored packet count for none: the first shows the
size of the whole packet inside. A datagram of an exporter is put together again.
"""

from __future__ import annotations

from collections import OrderedDict
from struct import Struct
from typing import Generic, NamedTuple, TypeVar

from llmprism.ingest.links import (
    IPV4,
    IPV6,
    ROCE_V1,
    Place,
    by_version,
    ethernet,
    network,
    not_ip,
    number,
)

TOO_SHORT = "packet cut before the end of its addresses"
LATER = "later fragment of a mirrored packet, whose first one shows its size"

ROCE_PORT = 4791
_BTH_BYTES, _ICRC_BYTES, _GRH_BYTES = 12, 4, 40
_BRIDGED = 0x6558
_ERSPAN_2, _ERSPAN_3 = 0x88BE, 0x22EB
TCP, UDP, _GRE = 6, 17, 47
_SKIPPED_V6 = frozenset({0, 43, 60})  # extension headers with a length byte
_FRAGMENT_V6 = 44
_DEEPEST = 3  # nested mirrors
_IPV4_HEADER = Struct(">BxHHHxBxx4s4s")
_TWO_PORTS = Struct(">HH")

Flow = tuple[bytes, bytes, int, int, int, int]
"""Source, destination, source port, destination port, protocol, destination queue pair; addresses
are bytes, -1 is unknown."""


class Packet(NamedTuple):
    """One packet of a flow.

    ``size`` counts the IP header, ``payload`` what is above the transport header (-1: unknown);
    ``switch`` is the address of the mirroring switch, if any.
    """

    flow: Flow
    size: int
    payload: int
    switch: bytes | None


class Ip(NamedTuple):
    """An IP packet: what it carries starts at ``place``, with ``left`` bytes on the wire."""

    source: bytes
    target: bytes
    protocol: int
    place: int
    size: int
    left: int
    fragment: Fragment | None


class Packets:
    """Reads packets; remembers the first fragments of those that come in several."""

    def __init__(self) -> None:
        self._firsts: Memory[Flow | None] = Memory()  # None: of a mirrored packet

    def decode(self, link_type: int, data: bytes, length: int) -> Packet | str:
        """Return what a packet says, or the reason why it says nothing."""
        found = network(link_type, data)
        return found if isinstance(found, str) else self._network(found, data, length, None, 0)

    def _network(
        self, at: Place, data: bytes, length: int, switch: bytes | None, depth: int
    ) -> Packet | str:
        if at[0] == ROCE_V1:
            return _roce_v1(data, at[1], switch)
        ip = read_ip(at, data, length)
        if isinstance(ip, str):
            return ip
        if ip.fragment is not None and ip.fragment.offset:
            return self._later(ip, ip.fragment, switch)
        inner = _mirrored(data, ip.place) if ip.protocol == _GRE and depth < _DEEPEST else None
        if inner is None:
            packet = _transport(ip, data, switch)
            if ip.fragment is not None:
                self._firsts.keep(ip.fragment.name, packet.flow)
            return packet
        if ip.fragment is not None:
            self._firsts.keep(ip.fragment.name, None)
        return self._network(inner, data, ip.place + ip.left, ip.source, depth + 1)

    def _later(self, ip: Ip, fragment: Fragment, switch: bytes | None) -> Packet | str:
        """Return what a later fragment adds to the flow of its first one."""
        flow = self._firsts.get(fragment.name)
        if flow is None and ip.protocol == _GRE:
            return LATER
        if flow is None:
            port = -1 if ip.protocol in (TCP, UDP) else 0
            flow = (ip.source, ip.target, port, port, ip.protocol, -1)
        return Packet(flow, ip.size, max(ip.left, 0), switch)


def read_ip(at: Place, data: bytes, length: int) -> Ip | str:
    """Return the IP packet that starts at a place, or the reason why there is none."""
    if at[0] == IPV4:
        return _ipv4(data, at[1], length)
    if at[0] == IPV6:
        return _ipv6(data, at[1], length)
    return not_ip(at[0])


def _ipv4(data: bytes, start: int, length: int) -> Ip | str:
    if len(data) < start + 20:
        return TOO_SHORT
    first, total, ident, flags, protocol, source, target = _IPV4_HEADER.unpack_from(data, start)
    header = (first & 0x0F) * 4
    if first >> 4 != 4 or header < 20:
        return not_ip(IPV4)
    total = total or max(length - start, header)  # 0: segmented by the NIC
    fragment = None
    if flags & 0x3FFF:
        name = (source, target, protocol, ident)
        fragment = Fragment(name, (flags & 0x1FFF) * 8, bool(flags & 0x2000))
    return Ip(source, target, protocol, start + header, total, max(total - header, 0), fragment)


def _ipv6(data: bytes, start: int, length: int) -> Ip | str:
    if len(data) < start + 40:
        return TOO_SHORT
    if data[start] >> 4 != 6:
        return not_ip(IPV6)
    above = number(data, start + 4, 2)
    total = 40 + above if above else max(length - start, 40)
    source, target = data[start + 8 : start + 24], data[start + 24 : start + 40]
    protocol, place, fragment = data[start + 6], start + 40, None
    while len(data) >= place + 8 and fragment is None:
        if protocol in _SKIPPED_V6:
            protocol, place = data[place], place + 8 + 8 * data[place + 1]
        elif protocol == _FRAGMENT_V6:
            protocol, word, ident = data[place], number(data, place + 2, 2), data[place + 4 :]
            name = (source, target, protocol, int.from_bytes(ident[:4], "big"))
            fragment, place = Fragment(name, word & 0xFFF8, bool(word & 1)), place + 8
        else:
            break
    return Ip(source, target, protocol, place, total, max(total - (place - start), 0), fragment)


def _transport(ip: Ip, data: bytes, switch: bytes | None) -> Packet:
    """Return the packet with its ports, and what it carries above the transport header."""
    start, protocol = ip.place, ip.protocol
    if protocol not in (TCP, UDP):
        return Packet((ip.source, ip.target, 0, 0, protocol, -1), ip.size, ip.left, switch)
    if len(data) < start + 4:
        return Packet((ip.source, ip.target, -1, -1, protocol, -1), ip.size, -1, switch)
    source_port, target_port = _TWO_PORTS.unpack_from(data, start)
    queue_pair = -1
    if protocol == TCP:
        above = ip.left - (data[start + 12] >> 4) * 4 if len(data) > start + 12 else None
    else:
        above = ip.left - 8
        if target_port == ROCE_PORT and len(data) >= start + 16:
            queue_pair = number(data, start + 13, 3)
            above -= _BTH_BYTES + _ICRC_BYTES
    payload = -1 if above is None else max(above, 0)
    flow = (ip.source, ip.target, source_port, target_port, protocol, queue_pair)
    return Packet(flow, ip.size, payload, switch)


def _roce_v1(data: bytes, start: int, switch: bytes | None) -> Packet | str:
    """Return a packet of InfiniBand with its global route header; it has no ports."""
    transport = start + _GRH_BYTES
    if len(data) < transport:
        return TOO_SHORT
    if data[start] >> 4 != 6:
        return not_ip(ROCE_V1)
    above = number(data, start + 4, 2)
    queue_pair = number(data, transport + 5, 3) if len(data) >= transport + 8 else -1
    ends = (data[start + 8 : start + 24], data[start + 24 : start + 40])
    payload = max(above - _BTH_BYTES - _ICRC_BYTES, 0)
    flow = (*ends, 0, 0, data[start + 6], queue_pair)
    return Packet(flow, _GRH_BYTES + above, payload, switch)


def _mirrored(data: bytes, start: int) -> Place | None:
    """Return where the packet inside a mirror's GRE starts; None: it is no mirror's."""
    flags, kind = number(data, start, 2), number(data, start + 2, 2)
    place = start + 4 + 4 * sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000))
    if kind == _ERSPAN_2:
        has_header = bool(flags & 0x1000)  # type I has neither sequence number nor header
        return ethernet(data, place + 8 if has_header else place)
    if kind == _ERSPAN_3:
        last = number(data, place + 10, 2)
        frame_type, has_more = (last >> 10) & 0x1F, last & 1
        place += 20 if has_more else 12
        return (by_version(data, place), place) if frame_type == 2 else ethernet(data, place)
    if kind == _BRIDGED:
        return ethernet(data, place)
    return None


Kept = TypeVar("Kept")
_MOST = 4096  # packets whose fragments are awaited; the oldest is given up
_LARGEST = 65_535  # bytes of a packet

Name = tuple[bytes, bytes, int, int]
"""Source, destination, protocol and identification: what the fragments of a packet share."""


class Fragment(NamedTuple):
    """Where a fragment belongs: the packet, the bytes before it, and whether more follow."""

    name: Name
    offset: int
    has_more: bool


class Memory(Generic[Kept]):
    """Something for each of the packets that were begun last."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[Name, Kept] = OrderedDict()

    def keep(self, name: Name, value: Kept) -> Kept | None:
        """Keep a value; return what is given up for it."""
        self._kept[name] = value
        self._kept.move_to_end(name)
        return self._kept.popitem(last=False)[1] if len(self._kept) > self._most else None

    def get(self, name: Name) -> Kept | None:
        """Return what is kept for a packet."""
        return self._kept.get(name)

    def forget(self, name: Name) -> None:
        """Keep nothing any more for a packet."""
        self._kept.pop(name, None)

    def __len__(self) -> int:
        return len(self._kept)


class Assembly:
    """Puts packets together from their fragments, in whatever order they come."""

    def __init__(self) -> None:
        self._parts: Memory[dict[int, tuple[bytes, bool]]] = Memory(256)
        self.given_up = 0

    def add(self, fragment: Fragment, content: bytes) -> bytes | None:
        """Take a fragment; return the content of its packet if this was the last one missing."""
        parts = self._parts.get(fragment.name)
        if parts is None:
            parts = {}
            self.given_up += self._parts.keep(fragment.name, parts) is not None
        parts[fragment.offset] = (content, fragment.has_more)
        whole = b""
        while len(whole) in parts and len(whole) <= _LARGEST:
            content, has_more = parts[len(whole)]
            whole += content
            if not has_more:
                self._parts.forget(fragment.name)
                return whole
            if not content:
                break
        return None

    @property
    def missing(self) -> int:
        """Packets of which fragments did not come."""
        return self.given_up + len(self._parts)
