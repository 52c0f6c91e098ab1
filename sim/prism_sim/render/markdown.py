"""Tables in Markdown for pages, scripts and benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers_right: bool = False
) -> str:
    r"""A Markdown table, with a line break at its end.

    Parameters
    ----------
    head : titles of the columns.
    rows : cells as text; a vertical bar in a cell is escaped, a line break becomes a space.
    numbers_right : align every column but the first to the right.

    >>> print(table(["link", "rate"], [["a|b", "2"]], numbers_right=True), end="")
    | link | rate |
    |---|---:|
    | a\|b | 2 |
    """
    rule = ["---", *["---:" if numbers_right else "---"] * (len(head) - 1)]
    written = [_row(head), "|" + "".join(f"{cell}|" for cell in rule), *map(_row, rows)]
    return "\n".join(written) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    return " ".join(text.splitlines()).replace("\\|", "|").replace("|", "\\|")
