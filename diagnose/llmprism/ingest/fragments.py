"""IP fragments: what the later parts of a packet belong to.

Only the first fragment of a packet has ports. What it says is kept for a while, so that the
later ones count for the same flow. Those of a mirrored packet count for none: the first shows the
size of the whole packet inside. A datagram of an exporter is put together again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

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
