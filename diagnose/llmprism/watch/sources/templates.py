"""What exporters of NetFlow v9 and IPFIX send seldom, and every file of datagrams needs.

Templates say how records are laid out, and records of options how packets are sampled. An exporter
sends them every few minutes. A file that begins without them could not be read, so each file begins
with the last ones of every exporter. Anybody can send templates, so what is remembered is bounded:
those of exporters that have been silent for longest are forgotten first.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

V9, IPFIX = 9, 10
_HEADS = {V9: 20, IPFIX: 16}
_LAYOUTS, _OPTIONS = {V9: (0, 1), IPFIX: (2, 3)}, {V9: 1, IPFIX: 3}
_LARGEST = 60_000  # bytes of a datagram
_MOST_SETS = 4_096  # of an exporter's domain
_MOST_DOMAINS = 64  # of an exporter
_MOST_BYTES = 1 << 20  # of all that is remembered: every file begins with it


@dataclass
class _Known:
    """The sets of one exporter and domain, by what tells them apart."""

    head: bytes = b""
    sets: dict[bytes, bytes] = field(default_factory=dict)
    options: set[int] = field(default_factory=set)
    nbytes: int = 0

    def put(self, key: bytes, whole: bytes) -> bool:
        """Remember a set, if there is room; return whether it is new."""
        before = self.sets.get(key)
        if before == whole or (before is None and len(self.sets) >= _MOST_SETS):
            return False
        self.nbytes += len(whole) - len(before or b"")
        self.sets[key] = whole
        return True


_Key = tuple[bytes, int, bytes]
"""Exporter, version and domain."""


class Templates:
    """Remembers the templates and options of each exporter, the last one that sent at the end."""

    def __init__(self) -> None:
        self._known: dict[_Key, _Known] = {}
        self._nbytes = 0

    def learn(self, exporter: bytes, content: bytes) -> bool:
        """Take what a datagram has of them; return whether any is new."""
        version = int.from_bytes(content[:2], "big")
        size = _HEADS.get(version, 0)
        if not size or len(content) < size:
            return False
        is_new = False
        key = (exporter, version, content[size - 4 : size])
        known = self._known.pop(key, None)
        before = known.nbytes if known else 0
        for number, whole in _sets(content, size):
            is_layout = number in _LAYOUTS[version]
            if not is_layout and (known is None or number not in known.options):
                continue
            known = known or _Known()
            known.head = content[:size]
            if number == _OPTIONS[version]:
                known.options.add(int.from_bytes(whole[4:6], "big"))
            is_new |= known.put(whole[:2] + (whole[4:6] if is_layout else b""), whole)
        if known is not None:
            self._known[key] = known
            self._nbytes += known.nbytes - before
            self._forget(exporter)
        return is_new

    def _forget(self, exporter: bytes) -> None:
        """Forget what has been silent for longest: domains of an exporter, and all exporters."""
        own = [key for key in self._known if key[0] == exporter] if self._is_many else []
        for key in own[: len(own) - _MOST_DOMAINS] if len(own) > _MOST_DOMAINS else []:
            self._nbytes -= self._known.pop(key).nbytes
        while self._nbytes > _MOST_BYTES and len(self._known) > 1:
            self._nbytes -= self._known.pop(next(iter(self._known))).nbytes

    @property
    def _is_many(self) -> bool:
        return len(self._known) > _MOST_DOMAINS

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
