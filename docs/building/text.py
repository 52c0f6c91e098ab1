"""Markdown of made parts: text of which Markdown reads no letter as its own sign."""

from __future__ import annotations

import re

_SIGNS = re.compile(r"([\\*_<>|\[\]$])")


def cell(text: str) -> str:
    """Text in which no letter is a sign of Markdown."""
    return _SIGNS.sub(r"\\\1", " ".join(text.split()))
