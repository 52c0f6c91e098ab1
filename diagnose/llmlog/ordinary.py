"""Passing over lines that say nothing new, fast: most of a log are a few statements, repeated.

The *shape* of a line is what is left without digits; of a long line, without the letters of
hexadecimal numbers too. If a line is ordinary, so are all lines of its shape, apart from its
*head*, which names a process.
"""

from __future__ import annotations

_DIGITS, _HEX = b"0123456789", b"0123456789abcdef"
_LONG = 40
"""Bytes without which a shape would be too short to tell statements apart."""
_MOST, _LONGEST = 100_000, 1_000
_HEAD_BYTES = 48


class Ordinary:
    """Shapes of lines of one kind of file; memory is bounded."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, tuple[bool, bool]] = {}
        self._heads: set[bytes] = set()

    def knows(self, raw: bytes) -> bool | None:
        """Whether a line's kind is known, if it says nothing new; None if it has to be read."""
        found = self._shapes.get(shape(raw))
        if found is None or (found[0] and _head(raw) not in self._heads):
            return None
        return found[1]

    def add(self, raw: bytes, names_process: bool, known: bool) -> None:
        """Learn that a line is ordinary, of a known kind or not; it may name who prints it."""
        if len(raw) > _LONGEST:
            return
        if len(self._shapes) > _MOST or len(self._heads) > _MOST:
            self._shapes.clear()
            self._heads.clear()
        self._shapes[shape(raw)] = names_process, known
        if names_process:
            self._heads.add(_head(raw))


def shape(raw: bytes) -> bytes:
    """What lines of one statement have in common, with rare exceptions."""
    bare = raw.translate(None, _HEX)
    return bare if len(bare) >= _LONG else b"\0" + raw.translate(None, _DIGITS)


def _head(raw: bytes) -> bytes:
    end = raw.find(b" NCCL ")
    return raw[:end] if end >= 0 else raw[:_HEAD_BYTES]
