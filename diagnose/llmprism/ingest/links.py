"""From the start of a frame to its network header: links, and the labels and tags before IP.

A frame says what follows by an Ethernet type. Some types stand for a tag, with another type behind
it: VLANs of all kinds, 802.1ah and 802.1BR, MPLS labels, PPPoE, VN-Tag, and tags of vendors. They
are walked until a type is none of these. What is not read is named by its type.

Tags are as Wireshark and tcpdump read them; types are those of the IEEE, link types those of
tcpdump.org.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

Place = tuple[int, int]
"""An Ethernet type, and where what it names starts; a negative type is one of PPP."""

IPV4, IPV6, ROCE_V1, MPLS = 0x0800, 0x86DD, 0x8915, 0x8847
CUT = 0
"""In place of a type: the frame ends before it."""
NO_GRH = "InfiniBand packet without addresses (no global route header)"

_MOST_TAGS = 16
_LEAST_TYPE = 0x0600  # less is a length: 802.3 with LLC
_FIXED = {  # bytes of a tag between its own type and the next
    0x8100: 2, 0x88A8: 2, 0x9100: 2, 0x9200: 2, 0x9300: 2,  # VLAN
    0x8926: 4,  # VN-Tag
    0x893F: 6,  # 802.1BR
    0xF1C1: 4,  # 802.1CB
    0x8909: 6,  # Cisco metadata
    0xDADA: 6,  # Marvell EDSA
}  # fmt: skip
_NAMES = {
    0x0806: "ARP", 0x0842: "Wake-on-LAN", 0x8035: "RARP", 0x8808: "flow control",
    0x8809: "LACP", 0x8863: "PPPoE discovery", 0x888E: "EAPOL", 0x88CC: "LLDP", 0x88E5: "MACsec",
    0x88F7: "PTP", 0x8902: "CFM", 0x8906: "FCoE", 0x8914: "FCoE", 0x9000: "loopback test",
    IPV4: "IPv4 with a damaged header", IPV6: "IPv6 with a damaged header",
    ROCE_V1: "RoCE v1 with a damaged header",
}  # fmt: skip
_PPP = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS}
_ARISTA_BYTES = {0x10: 8, 0x20: 6}  # of a time, by the version's low byte
_NSH_NEXT = {1: IPV4, 2: IPV6, 5: MPLS}
_TYPE = Struct(">H")


def not_ip(kind: int) -> str:
    """Return why a packet of a type is set aside.

    >>> not_ip(0x0806), not_ip(-0xC021)
    ('packet that is no IP: Ethernet type 0x0806 (ARP)', 'packet that is no IP: PPP type 0xc021')
    """
    if kind < 0:
        return f"packet that is no IP: PPP type 0x{-kind:04x}"
    if kind == CUT:
        return "packet cut before its Ethernet type"
    if kind < _LEAST_TYPE:
        return "packet that is no IP: 802.3 with LLC (spanning tree and others)"
    name = f" ({_NAMES[kind]})" if kind in _NAMES else ""
    return f"packet that is no IP: Ethernet type 0x{kind:04x}{name}"


def network(link_type: int, data: bytes) -> Place | str:
    """Return the type and the start of the network header of a frame, or why it has none."""
    if link_type == 1:
        return ethernet(data, 0)
    start = _LINKS.get(link_type)
    if start is None:
        return f"packet on a link of type {link_type}, which is not read"
    return start(data)


def ethernet(data: bytes, start: int) -> Place:
    """Return the type and the start of what an Ethernet frame carries, behind all tags."""
    place = start + 14
    kind = _TYPE.unpack_from(data, place - 2)[0] if len(data) >= place else CUT
    return (kind, place) if kind in (IPV4, IPV6) else _walked(kind, data, place)


def by_version(data: bytes, start: int) -> int:
    """Return the Ethernet type of what must be an IP packet, by the version in its header."""
    return IPV6 if number(data, start, 1) >> 4 == 6 else IPV4


def number(data: bytes, start: int, size: int) -> int:
    """Return an unsigned number; 0 where the packet is cut."""
    part = data[start : start + size]
    return int.from_bytes(part, "big") if len(part) == size else 0


def _walked(kind: int, data: bytes, place: int) -> Place:
    """Return the first type that is no tag, and the place behind it."""
    for _ in range(_MOST_TAGS):
        if kind in _FIXED:
            place += _FIXED[kind] + 2
            kind = number(data, place - 2, 2)
        elif kind in _TAGS:
            kind, place = _TAGS[kind](data, place)
        elif CUT < kind < _LEAST_TYPE and data[place : place + 3] == b"\xaa\xaa\x03":
            kind, place = number(data, place + 6, 2), place + 8  # SNAP
        else:
            break
    return kind, place


def _labels(data: bytes, place: int) -> Place:
    """Return what follows the MPLS labels: IP, or a frame, maybe behind a control word of 0."""
    while len(data) >= place + 4 and not data[place + 2] & 1:  # bottom of the stack
        place += 4
    place += 4
    if number(data, place, 1) >> 4 in (4, 6):
        return by_version(data, place), place
    has_word = data[place : place + 2] == b"\0\0"
    return ethernet_type(data, place + 4 * has_word)


def ethernet_type(data: bytes, start: int) -> Place:
    """Return the type of a frame inside a frame, and the place behind it."""
    return number(data, start + 12, 2), start + 14


def _ppp(data: bytes, place: int) -> Place:
    """Return what a PPP frame carries; its address field and half of its type may be left out."""
    if data[place : place + 2] == b"\xff\x03":
        place += 2
    size = 1 if number(data, place, 1) & 1 else 2
    kind = number(data, place, size)
    return _PPP.get(kind, -kind), place + size


def _nsh(data: bytes, place: int) -> Place:
    behind = place + 4 * (number(data, place + 1, 1) & 0x3F)
    next_kind = number(data, place + 3, 1)
    if next_kind == 3:
        return ethernet_type(data, behind)
    return _NSH_NEXT.get(next_kind, CUT), behind


def _arista(data: bytes, place: int) -> Place:
    behind = place + 4 + _ARISTA_BYTES.get(number(data, place + 3, 1), 8)
    return number(data, behind, 2), behind + 2


def _trill(data: bytes, place: int) -> Place:
    options = (number(data, place, 2) >> 6) & 0x1F
    return ethernet_type(data, place + 6 + 4 * options)


_TAGS: dict[int, Callable[[bytes, int], Place]] = {
    MPLS: _labels,
    0x8848: _labels,
    0x8864: lambda data, place: _ppp(data, place + 6),  # PPPoE
    0x88E7: lambda data, place: ethernet_type(data, place + 4),  # 802.1ah
    0x8903: lambda data, place: ethernet_type(data, place + 2),  # FabricPath
    0x22F3: _trill,
    0x894F: _nsh,
    0xD28B: _arista,
}


def _raw(start: int) -> Callable[[bytes], Place]:
    return lambda data: (by_version(data, start), start)


def _typed(at: int, start: int) -> Callable[[bytes], Place]:
    return lambda data: _walked(number(data, at, 2), data, start)


def _infiniband(data: bytes) -> Place | str:
    """Return what follows a local route header, by its field "link next header"."""
    follows = number(data, 1, 1) & 3
    if follows == 2:
        return NO_GRH
    return {3: (ROCE_V1, 8), 1: (IPV6, 8)}.get(follows, (number(data, 10, 2), 12))


def _serial(data: bytes) -> Place:
    """Return what a frame of PPP or of Cisco HDLC carries."""
    return _typed(2, 4)(data) if number(data, 0, 1) in (0x0F, 0x8F) else _behind_ppp(data, 0)


def _behind_ppp(data: bytes, place: int) -> Place:
    kind, behind = _ppp(data, place)
    return _walked(kind, data, behind)


_LINKS: dict[int, Callable[[bytes], Place | str]] = {
    **dict.fromkeys((12, 14, 101, 228, 229), _raw(0)),  # IP without a link header
    **dict.fromkeys((0, 108), _raw(4)),  # loopback of BSD
    113: _typed(14, 16),  # Linux cooked
    276: _typed(0, 20),
    242: _typed(40, 44),  # IP over InfiniBand
    247: _infiniband,
    219: lambda data: _walked(MPLS, data, 0),
    **dict.fromkeys((9, 50, 104), _serial),
    51: lambda data: _behind_ppp(data, 6),  # PPPoE
}
