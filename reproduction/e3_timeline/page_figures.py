"""The pictures of E3: the work of three ranks, and the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prism_sim.toolkit import paint
from reproduction.base import METHOD, OTHER_METHOD
from reproduction.pages import mean_and_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CLOSE_S = (2.2, 1.1)  # before and after the end of a step, in the enlarged panel
_LEAST = 1e-6  # a smaller error is drawn as this one

Rise = dict[float, list[list[float]]]
"""By host work [ms], the values of each curve over the seeds: mean and largest of each method."""

Errors = tuple[Mapping[str, Sequence[Sequence[float]]], Rise, float]
"""Percentiles 0 to 100 by name and seed; errors by host work; the bound."""

_CURVES = (
    (f"mean, {METHOD}", paint.REBUILT, "-"),
    (f"largest, {METHOD}", paint.WRONG, "-"),
    (f"mean, {OTHER_METHOD}", paint.REBUILT, ":"),
    (f"largest, {OTHER_METHOD}", paint.WRONG, ":"),
)


@paint.styled
def draw_ranks(shown: dict[str, Any]) -> Figure:
    """Draw a true and a rebuilt line for each rank: two steps, and the end of a step enlarged."""
    made = paint.figure(12, 6.6)
    whole, close = made.subplots(2, 1)
    middle_s = shown["seconds"] / 2
    end_s = min(shown["ranks"][0]["true"]["ends"], key=lambda end: abs(end - middle_s))
    for axes in (whole, close):
        _lines(axes, shown["ranks"])
        axes.set_xlabel("time [s]")
    whole.set_xlim(0, shown["seconds"] * 1.004)
    whole.set_title("Two steps")
    close.set_xlim(end_s - _CLOSE_S[0], end_s + _CLOSE_S[1])
    close.set_title("The end of the first step")
    parts = [("fwd", "forward"), ("bwd", "backward"), ("opt", "optimizer"),
             ("compute", "computation, rebuilt"), ("pp", "pipeline (PP)"),
             ("dp", "data-parallel (DP)")]  # fmt: skip
    entries: list[Any] = [paint.swatch(paint.WORK[kind], label) for kind, label in parts]
    entries += [_mark(paint.INK, "step ends"), _mark(paint.REBUILT, "step ends, rebuilt")]
    made.legend(handles=entries, loc="outside lower left", ncols=8)
    paint.title(made, "Three ranks: their true work, and the work rebuilt from flows")
    return made


def _mark(colour: str, label: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, linewidth=1.6, label=label)


def _lines(axes: Axes, ranks: Sequence[dict[str, Any]]) -> None:
    names = []
    for row, rank in enumerate(ranks):
        for below, side in enumerate(("true", "rebuilt")):
            y = 2 * row + below
            _line(axes, rank[side], y, paint.REBUILT if below else paint.INK)
            place = f"rank {rank['rank']}, stage {rank['stage']}   " if not below else ""
            names.append(f"{place}{side}")
        if row:
            axes.axhline(2 * row - 0.5, color=paint.GRID, linewidth=0.7, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _line(axes: Axes, line: dict[str, Any], y: float, mark: str) -> None:
    """Draw computation at full height, and traffic in the lower half."""
    for kind, bars in line.items():
        if kind == "ends":
            axes.vlines(bars, y - 0.48, y + 0.48, color=mark, linewidth=1.6)
        elif kind in ("pp", "dp"):  # an outline keeps messages of a millisecond visible
            colour = paint.WORK[kind]
            axes.broken_barh(bars, (y, 0.36), facecolor=colour, edgecolor=colour, linewidth=0.6)
        else:
            box, colour = (y - 0.36, 0.72), paint.WORK[kind]
            axes.broken_barh(bars, box, facecolor=colour, edgecolor=paint.PAPER, linewidth=0.3)


@paint.styled
def draw_errors(errors: Errors) -> Figure:
    """Distributions of the errors, and the error of the step against host work."""
    named, work, published = errors
    made = paint.figure(12, 5)
    spread, rise = made.subplots(1, 2)
    _spread(spread, named, published)
    if work:
        _rise(rise, work, published)
    named_lines, names = spread.get_legend_handles_labels()
    made.legend(named_lines, names, loc="outside lower left", ncols=2)
    paint.title(made, f"Where the published {100 * published:g} % lies")
    return made


def _spread(axes: Axes, named: Mapping[str, Sequence[Sequence[float]]], published: float) -> None:
    import seaborn as sns

    colours = (paint.REBUILT, paint.KINDS["pp"], paint.KINDS["cp"], paint.WRONG)
    for (name, seeds), colour in zip(named.items(), colours, strict=False):
        for number, percentiles in enumerate(seeds):
            x = [100 * max(value, _LEAST) for value in percentiles]
            how: dict[str, Any] = {"linewidth": 1.1, "alpha": 0.8, "legend": False}
            how |= {"label": name if number == 0 else None, "color": colour}
            sns.lineplot(x=x, y=range(101), estimator=None, sort=False, ax=axes, **how)
    axes.set_xscale("log")
    axes.set_xlim(100 * _LEAST, 100)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.axvline(100 * published, color=paint.INK, linewidth=1, linestyle="--")
    axes.text(110 * published, 3, "published", fontsize=8)
    axes.set_title("Distribution of the error")
    axes.set_xlabel("error [%], at least 0.0001")
    axes.set_ylabel("(rank, step) pairs at or below [%]")
    axes.grid(axis="y")


def _rise(axes: Axes, work: Rise, published: float) -> None:
    for place, (label, colour, style) in enumerate(_CURVES):
        y = [[100 * value for value in curves[place]] for curves in work.values()]
        how: dict[str, Any] = {"marker": "o", "markersize": 5, "label": label, "color": colour}
        mean_and_range(axes, list(work), y, linestyle=style, **how)
    axes.axhline(100 * published, color=paint.INK, linewidth=1, linestyle="--")
    axes.text(max(work), 100 * published * 1.05, "published", fontsize=8, ha="right", va="bottom")
    axes.set_title("Error of the step over host work between steps")
    axes.set_xlabel("host work [ms]")
    axes.set_ylabel("error [%]")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.legend(loc="upper left")
