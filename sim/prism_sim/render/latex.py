"""Tables of LaTeX for a publication: rules of ``booktabs``, and text of others escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SIGNS = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip
_ANY = re.compile("[" + re.escape("".join(_SIGNS)) + "]")


def escaped(text: str) -> str:
    """Text without signs of LaTeX.

    >>> escaped("100 % of a_b")
    '100 \\\\% of a\\\\_b'
    """
    return _ANY.sub(lambda sign: _SIGNS[sign[0]], text)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are centred."""
    lines = [
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{escaped(caption)}}}",
        rf"\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}",
        r"\toprule",
        _row(head),
        r"\midrule",
        *map(_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"
