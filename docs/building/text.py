"""Markdown of made parts: cells that Markdown does not read as its own signs, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SIGNS = re.compile(r"([\\*_<>|\[\]$])")


def cell(text: str) -> str:
    """Text in which no letter is a sign of Markdown."""
    return _SIGNS.sub(r"\\\1", " ".join(text.split()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])
