"""What one captured packet says of its flow: addresses, ports, sizes.

Headers are walked from the link to the transport: Ethernet with any VLAN tags, Linux cooked
captures, IPv4, IPv6, TCP, UDP, and RoCE v2, whose destination queue pair is a part of what
identifies a flow. A mirrored packet (ERSPAN I, II and III in GRE) speaks for the packet inside; the
outer source is the switch that saw it. Packets may be cut: sizes come from the IP header.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

NOT_IP = "packet that is no IP (ARP, LLDP and others)"
TOO_SHORT = "packet cut before the end of its addresses"
UNKNOWN_LINK = "packet on a link of unknown type"

ROCE_PORT = 4791
_BTH_BYTES, _ICRC_BYTES = 12, 4
_IPV4, _IPV6, _BRIDGED = 0x0800, 0x86DD, 0x6558
_VLAN_TAGS = frozenset({0x8100, 0x88A8, 0x9100})
_ERSPAN_2, _ERSPAN_3 = 0x88BE, 0x22EB
_TCP, _UDP, _GRE = 6, 17, 47
_SKIPPED_V6 = frozenset({0, 43, 60})  # extension headers with a length byte
_FRAGMENT_V6 = 44
_DEEPEST = 3  # nested mirrors
_IPV4_HEADER = Struct(">BxHHHxBxx4s4s")
_TWO_PORTS = Struct(">HH")
_KIND = Struct(">H")


class Packet(NamedTuple):
    """One packet of a flow.

    ``flow`` is (source, destination, source port, destination port, protocol, destination queue
    pair), addresses as bytes, -1 where unknown; ``size`` counts the IP header, ``payload`` what
    is above the transport header (-1: unknown); ``switch`` is the address of the mirroring
    switch, if any.
    """

    flow: tuple[bytes, bytes, int, int, int, int]
    size: int
    payload: int
    switch: bytes | None


def decode(link_type: int, data: bytes, length: int) -> Packet | str:
    """Return what a packet says, or the reason why it says nothing."""
    start, kind = _link(link_type, data)
    if kind is None:
        return UNKNOWN_LINK
    return _network(kind, data, start, length, None, 0)


def _link(link_type: int, data: bytes) -> tuple[int, int | None]:
    """Return where the network header starts and its Ethernet type; None: unknown link."""
    if link_type == 1:
        return _ethernet(data, 0)
    if link_type == 113:
        return 16, _number(data, 14, 2)
    if link_type == 276:
        return 20, _number(data, 0, 2)
    if link_type in (12, 14, 101, 228, 229):
        return 0, _by_version(data, 0)
    if link_type in (0, 108):
        return 4, _by_version(data, 4)
    return 0, None


def _ethernet(data: bytes, start: int) -> tuple[int, int]:
    place = start + 12
    kind = _KIND.unpack_from(data, place)[0] if len(data) >= place + 2 else 0
    while kind in _VLAN_TAGS:
        place += 4
        kind = _number(data, place, 2)
    return place + 2, kind


def _by_version(data: bytes, start: int) -> int:
    return {4: _IPV4, 6: _IPV6}.get(_number(data, start, 1) >> 4, 0)


def _number(data: bytes, start: int, size: int) -> int:
    """Return an unsigned number; 0 where the packet is cut."""
    part = data[start : start + size]
    return int.from_bytes(part, "big") if len(part) == size else 0


def _network(
    kind: int, data: bytes, start: int, length: int, switch: bytes | None, depth: int
) -> Packet | str:
    if kind == _IPV4:
        return _ipv4(data, start, length, switch, depth)
    if kind == _IPV6:
        return _ipv6(data, start, length, switch, depth)
    return NOT_IP


def _ipv4(data: bytes, start: int, length: int, switch: bytes | None, depth: int) -> Packet | str:
    if len(data) < start + 20:
        return TOO_SHORT
    first, total, _, fragment, protocol, source, target = _IPV4_HEADER.unpack_from(data, start)
    header = (first & 0x0F) * 4
    if first >> 4 != 4 or header < 20:
        return NOT_IP
    total = total or max(length - start, header)  # 0: segmented by the NIC
    is_first = fragment & 0x1FFF == 0
    if not is_first:
        return Packet((source, target, 0, 0, protocol, -1), total, max(total - header, 0), switch)
    ends = (source, target)
    return _transport(protocol, data, start + header, total, total - header, ends, switch, depth)


def _ipv6(data: bytes, start: int, length: int, switch: bytes | None, depth: int) -> Packet | str:
    if len(data) < start + 40:
        return TOO_SHORT
    if data[start] >> 4 != 6:
        return NOT_IP
    above = _number(data, start + 4, 2)
    total = 40 + above if above else max(length - start, 40)
    ends = (data[start + 8 : start + 24], data[start + 24 : start + 40])
    protocol, place = data[start + 6], start + 40
    while protocol in _SKIPPED_V6 and len(data) >= place + 2:
        protocol, place = data[place], place + 8 + 8 * data[place + 1]
    if protocol == _FRAGMENT_V6 and len(data) >= place + 8:
        if _number(data, place + 2, 2) >> 3:
            left = max(total - (place + 8 - start), 0)
            return Packet((*ends, 0, 0, data[place], -1), total, left, switch)
        protocol, place = data[place], place + 8
    left = total - (place - start)
    return _transport(protocol, data, place, total, left, ends, switch, depth)


def _transport(
    protocol: int,
    data: bytes,
    start: int,
    total: int,
    left: int,
    ends: tuple[bytes, bytes],
    switch: bytes | None,
    depth: int,
) -> Packet | str:
    """Return the packet; ``left`` bytes of it follow the network header on the wire."""
    if protocol == _GRE and depth < _DEEPEST:
        inner = _mirrored(data, start)
        if inner is not None:
            place, kind = inner
            return _network(kind, data, place, start + left, ends[0], depth + 1)
    if protocol not in (_TCP, _UDP):
        return Packet((*ends, 0, 0, protocol, -1), total, max(left, 0), switch)
    if len(data) < start + 4:
        return Packet((*ends, -1, -1, protocol, -1), total, -1, switch)
    source_port, target_port = _TWO_PORTS.unpack_from(data, start)
    queue_pair = -1
    if protocol == _TCP:
        above = left - (data[start + 12] >> 4) * 4 if len(data) > start + 12 else None
    else:
        above = left - 8
        if target_port == ROCE_PORT and len(data) >= start + 16:
            queue_pair = _number(data, start + 13, 3)
            above -= _BTH_BYTES + _ICRC_BYTES
    payload = -1 if above is None else max(above, 0)
    flow = (*ends, source_port, target_port, protocol, queue_pair)
    return Packet(flow, total, payload, switch)


def _mirrored(data: bytes, start: int) -> tuple[int, int] | None:
    """Return where the packet inside a mirror's GRE starts, and its type; None: no mirror."""
    flags, kind = _number(data, start, 2), _number(data, start + 2, 2)
    place = start + 4 + 4 * sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000))
    if kind == _ERSPAN_2:
        has_header = bool(flags & 0x1000)  # type I has neither sequence number nor header
        return _ethernet(data, place + 8 if has_header else place)
    if kind == _ERSPAN_3:
        last = _number(data, place + 10, 2)
        frame_type, has_more = (last >> 10) & 0x1F, last & 1
        place += 20 if has_more else 12
        return (place, _by_version(data, place)) if frame_type == 2 else _ethernet(data, place)
    if kind == _BRIDGED:
        return _ethernet(data, place)
    return None


def udp_payload(link_type: int, data: bytes) -> tuple[bytes, bytes, int] | None:
    """Return what a UDP packet carries, its source and its port; None for any other packet."""
    start, kind = _link(link_type, data)
    if kind == _IPV4 and len(data) >= start + 20:
        header, protocol = (data[start] & 0x0F) * 4, data[start + 9]
        source = data[start + 12 : start + 16]
    elif kind == _IPV6 and len(data) >= start + 40:
        header, protocol = 40, data[start + 6]
        source = data[start + 8 : start + 24]
    else:
        return None
    place = start + header
    size = _number(data, place + 4, 2)
    if protocol != _UDP or size < 8:
        return None
    return data[place + 8 : place + size], source, _number(data, place + 2, 2)
