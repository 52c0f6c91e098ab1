"""Parts of the page of checks."""

from __future__ import annotations

from typing import NamedTuple


class Section(NamedTuple):
    """A heading and the text below it."""

    title: str
    text: str


def percent(fraction: float) -> str:
    """A fraction as a percentage of two significant digits.

    >>> percent(0.00012345), percent(0.0)
    ('0.012 %', '0 %')
    """
    value = 100 * float(fraction)
    return f"{value:.2g} %" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e} %"
