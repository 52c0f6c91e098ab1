"""Pieces of a page of figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Section(NamedTuple):
    """A heading and what stands below it."""

    title: str
    text: str


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, all others are flush right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, rule, *rows])


def percent(fraction: float) -> str:
    """A fraction as a percentage of two significant digits.

    >>> percent(0.00012345), percent(0.0)
    ('0.012 %', '0 %')
    """
    value = 100 * float(fraction)
    return f"{value:.2g} %" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e} %"
