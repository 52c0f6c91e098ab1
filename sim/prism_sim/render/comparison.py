"""A comparison of methods as Markdown, HTML and LaTeX, in a notebook, and as a figure.

All tables show the same blocks, which follow from the estimates
(:mod:`prism_sim.studies.paired` makes them; this module only words them).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from prism_common.quantities import duration
from prism_sim.render import paint
from prism_sim.render.markdown import table as markdown_table
from prism_sim.score.unanswered import NOT_ANSWERED, is_unanswered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Estimates = Mapping[str, Any]
"""The estimates of one group of worlds."""

_ABOUT = (
    "Each cell is a mean over worlds with its 95 % interval (Student's t). A difference is taken "
    "in each world first; better and worse mean that its interval does not contain 0. A "
    "method that failed in a world counts there as one that finds nothing."
)
_STYLE = (
    "body{font:15px/1.4 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}table{border-collapse:collapse;margin:.5rem 0 1.5rem;"
    "font-variant-numeric:tabular-nums}th,td{padding:.25rem .7rem;text-align:right;"
    "border-bottom:1px solid #ddd}th:first-child,td:first-child{text-align:left}"
    "div{overflow-x:auto}"
)


@dataclass(frozen=True)
class Block:
    """A table with its title; the first column names the rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def narrowed(self, columns: int) -> list[Block]:
        """Tables with at most this many columns beside the first one."""
        places = range(1, len(self.head), columns)
        cuts = [slice(place, place + columns) for place in places]
        return [
            replace(
                self,
                head=[self.head[0], *self.head[cut]],
                rows=[[row[0], *row[cut]] for row in self.rows],
            )
            for cut in cuts
        ]


def blocks(groups: Mapping[str, Estimates]) -> list[Block]:
    """The tables of a comparison: figures, differences and failures of every group."""
    return [block for name, found in groups.items() for block in _of_group(name, found)]


def as_markdown(title: str, groups: Mapping[str, Estimates]) -> str:
    """The comparison as a Markdown page."""
    parts = [f"# {title}\n", f"{_ABOUT}\n"]
    for block in blocks(groups):
        written = markdown_table(block.head, block.rows, numbers_right=True)
        parts.append(f"## {block.title}\n\n{written}")
    return "\n".join(parts)


def as_latex(groups: Mapping[str, Estimates]) -> str:
    """The figures of every group as tables of LaTeX, which need ``booktabs``."""
    shown = [block for block in blocks(groups) if block.head[0] == "figure"]
    return "\n".join(latex_table(block.title, block.head, block.rows) for block in shown)


def as_html(title: str, groups: Mapping[str, Estimates]) -> str:
    """The comparison as one HTML page that needs no network."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    body = f"<h1>{escape(title)}</h1><p>{escape(_ABOUT)}</p>{as_tables(groups)}"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def as_tables(groups: Mapping[str, Estimates]) -> str:
    """The tables of a comparison in HTML."""
    return "".join(_html(block) for block in blocks(groups))


def _html(block: Block) -> str:
    cells = [_html_row("th", block.head), *(_html_row("td", row) for row in block.rows)]
    return f"<h2>{escape(block.title)}</h2><div><table>{''.join(cells)}</table></div>"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _of_group(name: str, found: Estimates) -> Iterator[Block]:
    methods = found["methods"]
    figures = [*next(iter(methods.values()))["figures"]]
    rows = [[figure, *(_figure(one, figure) for one in methods.values())] for figure in figures]
    rows += [
        ["time of a diagnosis", *(_time(one["seconds_median"]) for one in methods.values())],
        ["peak memory", *(_memory(one["peak_memory_bytes_median"]) for one in methods.values())],
        ["failed", *(_failures(one["failures"]) for one in methods.values())],
    ]
    worlds = "1 world" if found["worlds"] == 1 else f"{found['worlds']} worlds"
    yield Block(f"{name}: {worlds}", ["figure", *methods], rows)
    differences = found["differences"]
    if differences:
        head = ["difference", *differences]
        cells = [
            [figure, *(_difference(one[figure]) for one in differences.values())]
            for figure in figures
        ]
        yield Block(f"{name}: differences from {found['reference']}", head, cells)
    errors = [[method, error] for method, one in methods.items() for error in one["errors"]]
    if errors:
        yield Block(f"{name}: why methods failed", ["method", "reason"], errors)


def _figure(method: Mapping[str, Any], figure: str) -> str:
    if is_unanswered(figure, method["left_out"]):
        return NOT_ANSWERED
    return _interval(method["figures"][figure])


def _interval(estimate: Mapping[str, Any]) -> str:
    if estimate["mean"] is None:
        return "-"
    if estimate["low"] is None:
        return f"{estimate['mean']:.3g}"
    return f"{estimate['mean']:.3g} ({estimate['low']:.2g} to {estimate['high']:.2g})"


def _difference(estimate: Mapping[str, Any]) -> str:
    if estimate["mean"] is None:
        return "-"
    if estimate["low"] is None:
        return f"{estimate['mean']:+.3g}"
    interval = f"({estimate['low']:+.2g} to {estimate['high']:+.2g})"
    return f"{estimate['mean']:+.3g} {interval} {estimate['verdict']}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds * 1e9)


def _memory(size_bytes: float | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / 2**20:.0f} MiB"


def _failures(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items()) or "0"


# A comparison as a figure at the width of a column: shares of every method, with intervals.

COLUMN_INCHES = 3.5
"""Width of a column of a page with two."""


@paint.styled
def draw(group: Mapping[str, Any]) -> Figure:
    """The estimates of one group of worlds: a panel for each share, a row for each method."""
    methods = group["methods"]
    figures = group["shares"]
    if not figures:
        return paint.sentence("No share of this comparison is defined.")
    height = len(figures) * (0.32 + 0.17 * len(methods)) + 0.35
    made = paint.figure(COLUMN_INCHES, height)
    panels = made.subplots(len(figures), 1, sharex=True, squeeze=False)[:, 0]
    for panel, figure in zip(panels, figures, strict=True):
        _panel(panel, figure, methods)
    panels[-1].set_xlabel("mean over worlds, with 95 % intervals")
    return made


def _panel(panel: Axes, figure: str, methods: Mapping[str, Any]) -> None:
    names: Sequence[str] = [*methods]
    colours = paint.job_colours(names)
    for place, name in enumerate(names):
        estimate = methods[name]["figures"][figure]
        if estimate["mean"] is None:
            continue
        if estimate["low"] is not None:
            ends = [estimate["low"], estimate["high"]]
            panel.plot(ends, [place, place], color=colours[name], linewidth=1.2)
        panel.plot(estimate["mean"], place, "o", color=colours[name], markersize=4)
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_xlim(-0.03, 1.03)
    panel.set_title(figure.replace(".", ": ").replace("_", " "), fontsize=8)


# Tables of LaTeX for a publication: rules of ``booktabs``, and text of others escaped.

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


def latex_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
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
