"""Mutated text: what a cut copy, a full disk, an editor or an attacker makes of a file."""

from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import strategies as st

TOKENS = [
    "", "0", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "1e400",
    "nan", "inf", "9999-12-31 23:59:59", "0000-00-00 00:00:00.000", "1d 99:99:99", "0.0.0.0", "::",
    "null", "-", "\0", "\ufeff", "{}", "[]", '"', "[[[[", "{a: &a [*a]}", "a[0-99999999]", "\r",
    "\t", "   ", "\u0661", "1" * 5000,
]  # fmt: skip
"""In place of a word of the text."""

_Edit = Callable[[str], str]


def _put(share: float, token: str) -> _Edit:
    """Put a token in the place of a word or mark."""

    def edit(text: str) -> str:
        words = [one.span() for one in re.finditer(r"[\w.]+|\S", text)]
        if not words:
            return token
        start, end = words[int(share * (len(words) - 1))]
        return text[:start] + token + text[end:]

    return edit


def _cut(first: float, second: float) -> _Edit:
    def edit(text: str) -> str:
        start, end = sorted((int(first * len(text)), int(second * len(text))))
        return text[:start] + text[end:]

    return edit


def _repeat(share: float, times: int) -> _Edit:
    def edit(text: str) -> str:
        lines = text.splitlines(keepends=True) or [""]
        at = int(share * (len(lines) - 1))
        return "".join(lines[:at] + lines[at : at + 1] * times + lines[at + 1 :])

    return edit


_SHARE = st.floats(0, 1)
_EDITS = st.one_of(
    st.builds(_put, _SHARE, st.sampled_from(TOKENS)),
    st.builds(_put, _SHARE, st.sampled_from(TOKENS)),
    st.builds(_cut, _SHARE, _SHARE),
    st.builds(_repeat, _SHARE, st.integers(0, 50)),
)
_ENCODINGS = st.sampled_from(["utf-8"] * 8 + ["utf-16", "utf-32", "latin-1"])


@st.composite
def mutations(draw: st.DrawFn) -> Callable[[str], bytes]:
    """Functions that change a text in a few places, and write it in some encoding."""
    edits = draw(st.lists(_EDITS, min_size=1, max_size=4))
    encoding = draw(_ENCODINGS)

    def mutate(text: str) -> bytes:
        for edit in edits:
            text = edit(text)
        return text.encode(encoding, errors="replace")

    return mutate
