"""What a cut copy, a full disk, an editor or an attacker makes of bytes that we read."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import strategies as st

Edit = Callable[[bytes], bytes]
TOKENS = (
    b"", b"0", b"-1", b"9223372036854775808", b"1e400", b"Infinity", b"NaN", b"null", b"..", b"\0",
    b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"\xff" * 10, b"\x80", b"\xff" * 9 + b"\1",
    struct.pack("<q", -1), struct.pack(">I", 1 << 31), b"\x1b[2J", b"\n", b'"',
)  # fmt: skip


def _put(share: float, token: bytes, instead: int) -> Edit:
    def edit(data: bytes) -> bytes:
        at = int(share * len(data))
        return data[:at] + token + data[at + instead :]

    return edit


def _cut(first: float, second: float) -> Edit:
    def edit(data: bytes) -> bytes:
        start, end = sorted((int(first * len(data)), int(second * len(data))))
        return data[:start] + data[end:]

    return edit


def _repeat(share: float, size: int, times: int) -> Edit:
    def edit(data: bytes) -> bytes:
        at = int(share * len(data))
        return data[:at] + data[at : at + size] * times + data[at + size :]

    return edit


def _flip(share: float, mask: int) -> Edit:
    def edit(data: bytes) -> bytes:
        at = min(int(share * len(data)), len(data) - 1)
        return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :] if data else data

    return edit


_SHARE = st.floats(0, 1)
_EDITS = st.one_of(
    st.builds(_put, _SHARE, st.sampled_from(TOKENS), st.integers(0, 12)),
    st.builds(_cut, _SHARE, _SHARE),
    st.builds(_repeat, _SHARE, st.integers(1, 200), st.integers(0, 30)),
    st.builds(_flip, _SHARE, st.integers(1, 255)),
)


def edits(most: int = 4) -> st.SearchStrategy[list[Edit]]:
    """Draw some damage."""
    return st.lists(_EDITS, min_size=1, max_size=most)


def damaged(data: bytes, drawn: list[Edit]) -> bytes:
    """Return the bytes after some edits."""
    for edit in drawn:
        data = edit(data)
    return data[: 1 << 20]
