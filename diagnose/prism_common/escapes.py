"""Text of others on a terminal: what would control it, or forge a line, is shown as an escape."""

from __future__ import annotations

from typing import Any


def printable(text: str, keep: str = "") -> str:
    r"""Return ``text`` with an escape for each character that is not printable, but ``keep``.

    >>> printable("gpu01\x1b[2J\n")
    'gpu01\\x1b[2J\\n'
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in text)


def printable_values(value: Any) -> Any:
    """Return plain values, as JSON has them, with :func:`printable` texts."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_values(key): printable_values(each) for key, each in value.items()}
    return [printable_values(each) for each in value] if isinstance(value, list) else value
