"""Parts of the page: its sentences are in ``templates/``; a figure is a mean with its range."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

from prism_sim.toolkit import render_page

TEMPLATES = Path(__file__).parent / "templates"


def text(name: str, **values: Any) -> str:
    """The text of the template ``name`` with ``values``; it may use ranges over seeds."""
    ranges = {"with_range": with_range, "percent_range": percent_range}
    return render_page(TEMPLATES, name, **ranges, **values)


def paragraphs(name: str, **values: Any) -> list[str]:
    """The paragraphs of the template, each as one line, without empty ones."""
    parts = text(name, **values).split("\n\n")
    return [joined for part in parts if (joined := " ".join(part.split()))]


def with_range(values: Iterable[float | None], form: str = "{:.3g}", unit: str = "") -> str:
    """Mean and range over the seeds; one figure if all look the same; a dash if there is none.

    >>> with_range([1.0, 2.0, 3.0], unit=" s"), with_range([2.0, 2.0]), with_range([None])
    ('2 (1 to 3) s', '2', '-')
    """
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    low, middle, high = (_written(v, form) for v in (min(known), mean(known), max(known)))
    if low == high:
        return f"{middle}{unit}"
    return f"{middle} ({low} to {high}){unit}"


def percent_range(values: Iterable[float | None], digits: int = 2) -> str:
    """:func:`with_range` of fractions, in per cent.

    >>> percent_range([0.001, 0.003])
    '0.20 (0.10 to 0.30) %'
    """
    scaled = [None if value is None else 100 * value for value in values]
    return with_range(scaled, f"{{:.{digits}f}}", " %")


def _written(value: float, form: str) -> str:
    """``value`` in its form; a value that is shown as zero has no sign."""
    text = form.format(value)
    return text.lstrip("-") if not text.strip("-0.") else text
