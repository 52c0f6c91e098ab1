"""What exporters of NetFlow v9 and IPFIX send seldom, and every file of datagrams needs.

Templates say how records are laid out, and records of options how packets are sampled. An exporter
sends them every few minutes. A file that begins without them could not be read, so each file begins
with the last ones of every exporter.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

V9, IPFIX = 9, 10
_HEADS = {V9: 20, IPFIX: 16}
_LAYOUTS, _OPTIONS = {V9: (0, 1), IPFIX: (2, 3)}, {V9: 1, IPFIX: 3}
_LARGEST = 60_000  # bytes of a datagram
_MOST_SETS = 4_096  # of an exporter


@dataclass
class _Known:
    """The sets of one exporter and domain, by what tells them apart."""

    head: bytes = b""
    sets: dict[bytes, bytes] = field(default_factory=dict)
    options: set[int] = field(default_factory=set)


class Templates:
    """Remembers the templates and options of each exporter."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, int, bytes], _Known] = {}

    def learn(self, exporter: bytes, content: bytes) -> bool:
        """Take what a datagram has of them; return whether any is new."""
        version = int.from_bytes(content[:2], "big")
        size = _HEADS.get(version, 0)
        if not size or len(content) < size:
            return False
        is_new = False
        domain = content[size - 4 : size]
        known = self._known.get((exporter, version, domain))
        for number, whole in _sets(content, size):
            is_layout = number in _LAYOUTS[version]
            if not is_layout and (known is None or number not in known.options):
                continue
            known = known or self._known.setdefault((exporter, version, domain), _Known())
            known.head = content[:size]
            if number == _OPTIONS[version]:
                known.options.add(int.from_bytes(whole[4:6], "big"))
            key = whole[:2] + (whole[4:6] if is_layout else b"")  # kind, and first template
            if key in known.sets or len(known.sets) < _MOST_SETS:
                is_new |= known.sets.get(key) != whole
                known.sets[key] = whole
        return is_new

    def datagrams(self) -> list[tuple[bytes, bytes]]:
        """Exporter and content of datagrams with all that is remembered, templates first."""
        made = []
        for (exporter, version, _), known in self._known.items():
            body = b""
            for number in sorted(known.sets, key=lambda key: key[:2] > b"\0\xff"):
                if len(body) + len(known.sets[number]) > _LARGEST:
                    made.append((exporter, _headed(known.head, version, body)))
                    body = b""
                body += known.sets[number]
            made.append((exporter, _headed(known.head, version, body)))
        return made


def _headed(head: bytes, version: int, body: bytes) -> bytes:
    if version == IPFIX:
        head = head[:2] + struct.pack(">H", len(head) + len(body)) + head[4:]
    return head + body


def _sets(content: bytes, place: int) -> list[tuple[int, bytes]]:
    """Number and bytes of each set that follows the header."""
    found = []
    while place + 4 <= len(content):
        number, size = struct.unpack_from(">HH", content, place)
        if size < 4 or place + size > len(content):
            break
        found.append((number, content[place : place + size]))
        place += size
    return found
