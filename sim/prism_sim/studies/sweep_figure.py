"""The figures of a sweep: a panel for each, over the values of one column.

A column of numbers is an x axis, with a line for each combination of the other columns. Words,
truth values and faults are rows. Values that were drawn are dots, with a column of panels for
each. A panel reports how many of its values are undefined.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pandas as pd

from prism_sim.render import paint
from prism_sim.run_folder import Run
from prism_sim.studies.cases import CATALOGUE
from prism_sim.studies.study import ERROR, METHOD, SEED
from prism_sim.studies.sweep import STUDY, TABLE
from prism_sim.studies.sweep_values import distinct, is_number, names_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 2  # panels in a row
_MOST_DRAWN = 4  # drawn columns in the picture
_LETTERS = 120  # of a line of the legend
WHOLE_RANGE = ("pi", 100)  # seaborn's band from the lowest to the highest value
_LINE, _PLACE = "line", "place"
_TICKS = 9  # numbers below an axis, at most
_SHAPES = "oXsPD^v*<>pd"
_DRAWN_ABOUT = "Each dot is a run."
_ABOUT = "Lines and large dots: mean over the seeds; bands: lowest to highest; small dots: runs."


@dataclass(frozen=True)
class _Sweep:
    """The finished runs of a sweep, and what the figure shows of them.

    Attributes
    ----------
    study : content of ``study.json``.
    done : the finished runs, with the name of the line of each in the column ``line``.
    colours : colour of each line.
    """

    study: dict[str, Any]
    done: pd.DataFrame
    colours: dict[str, Any]

    def label(self, name: str) -> str:
        return str(self.study["labels"].get(name) or plain_name(name))


def plain_name(path: str) -> str:
    """The path of a value or figure in words.

    >>> plain_name("timeline.dp_end_error_mean"), plain_name("faults.0.factor"), plain_name("seed")
    ('DP end error mean', 'factor of fault 0', 'seed')
    """
    parts = path.split(".")
    words = [_ABBREVIATED.get(word, word) for word in parts[-1].split("_")]
    numbered = [at for at, part in enumerate(parts[1:], 1) if part.isdigit()]
    if numbered:
        owner = parts[numbered[0] - 1].replace("_", " ").removesuffix("s")
        words.append(f"of {owner} {parts[numbered[0]]}")
    return " ".join(words)


_ABBREVIATED = {"dp": "DP", "pp": "PP", "tp": "TP", "ep": "EP", "cp": "CP", "gbps": "[Gbit/s]"}


@paint.styled
def draw(run: Run) -> Figure:
    """Means over the seeds as lines, their range as bands, every run as a dot."""
    study, table = run.read_json(run.folder / STUDY), pd.read_parquet(run.folder / TABLE)
    done = table[table[ERROR].isna()]
    if not len(done):
        return paint.sentence("Every run of this sweep failed; the table has their errors.")
    columns = _x_columns(study)
    sweep = _sweep(study, done, columns)
    across = len(columns) if len(columns) > 1 else min(_ACROSS, len(study["figures"]))
    wanted = [(name, column) for name in study["figures"] for column in columns]
    made = paint.figure(
        10 if across > 1 else 6.5, 1.2 + _height(sweep, columns) * -(-len(wanted) // across)
    )
    panels = made.subplots(-(-len(wanted) // across), across, squeeze=False).ravel()
    for place, (panel, (name, column)) in enumerate(zip(panels, wanted, strict=False)):
        titled = len(columns) == 1 or place % across == 0
        panel.set_title(sweep.label(name) if titled else "")
        _draw_panel(panel, sweep, column, name)
    for spare in panels[len(wanted) :]:
        spare.set_visible(False)
    dots = _is_scattered(study, columns[0])
    _legend(made, sweep, dots, _DRAWN_ABOUT if dots else _ABOUT)
    paint.title(made, _title(study, table, done))
    return made


def _x_columns(study: dict[str, Any]) -> list[str]:
    """The columns on x axes: one, or all drawn ones."""
    drawn = [*study["drawn"]]
    return drawn[:_MOST_DRAWN] if study["x"] is None and study["axis"] in drawn else [study["axis"]]


def _is_scattered(study: dict[str, Any], column: str) -> bool:
    """Whether the values of a column are drawn or measured, so that each occurs once."""
    return column in study["drawn"] or column not in (*study["columns"], METHOD, SEED)


def _sweep(study: dict[str, Any], done: pd.DataFrame, columns: list[str]) -> _Sweep:
    """Name the line of each run by the other columns that vary."""
    fixed = [*columns, *study["drawn"]]
    others = [
        column
        for column in (*study["columns"], METHOD)
        if column not in fixed and not _is_given(study, done, column, columns[0])
    ]
    sweep = _Sweep(study, done, {})
    words = pd.Series("", index=done.index, dtype=object)
    for other in others:
        names = names_of(distinct(done[other]))
        alone = len(others) == 1 and not is_number(done[other])
        prefix = "" if alone else f"{sweep.label(other)} "
        part = done[other].map(lambda value, p=prefix, n=names: f"{p}{n.get(value, value)}")
        words = words.where(words == "", words + ", ") + part
    lines = list(dict.fromkeys(words))
    return _Sweep(study, done.assign(**{_LINE: words}), _colours(done, others, lines))


def _is_given(study: dict[str, Any], done: pd.DataFrame, column: str, x: str) -> bool:
    """Whether a column has one value in all runs, or one for each place on the x axis."""
    by_place = not _is_scattered(study, x) and (done.groupby(x)[column].nunique() <= 1).all()
    return bool(by_place or done[column].nunique() <= 1)


def _colours(done: pd.DataFrame, others: list[str], lines: list[str]) -> dict[str, Any]:
    """Colours of lines: ordered from light to dark if the lines are numbers."""
    import seaborn as sns

    if len(others) == 1 and is_number(done[others[0]]):
        return dict(zip(lines, sns.color_palette("flare", len(lines)), strict=True))
    return dict(paint.job_colours(lines))


def _height(sweep: _Sweep, columns: list[str]) -> float:
    """Height of a panel [inches]; categories are rows."""
    rows = 0 if is_number(sweep.done[columns[0]]) else sweep.done[columns[0]].nunique()
    return max(2.7, 1.0 + 0.13 * rows * (1 + len(sweep.colours)))


def _draw_panel(axes: Axes, sweep: _Sweep, column: str, name: str) -> None:
    known = sweep.done.dropna(subset=[name, column])
    axes.set_xlabel(sweep.label(column))
    axes.set_ylabel(_unit(sweep, name))
    if not len(known):
        axes.text(0.5, 0.5, "undefined in every run", transform=axes.transAxes, ha="center",
                  color=paint.MUTED)  # fmt: skip
        paint.quiet(axes)
        axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
        return
    if is_number(sweep.done[column]):
        _draw_over_numbers(axes, sweep, known, (column, name))
    else:
        _draw_rows(axes, sweep, known, (column, name))
    _report_undefined(axes, len(sweep.done) - len(known), len(sweep.done))


def _draw_over_numbers(
    axes: Axes, sweep: _Sweep, known: pd.DataFrame, what: tuple[str, str]
) -> None:
    """Lines over numbers that the study gives; dots over those that were drawn or measured."""
    import seaborn as sns

    column, name = what
    how: dict[str, Any] = {"x": column, "y": name, "hue": _LINE, "palette": sweep.colours}
    how |= {"ax": axes, "legend": False}
    scattered, scale = _is_scattered(sweep.study, column), sweep.study["x_scale"]
    if scattered:
        scale = sweep.study["drawn"].get(column, scale)
        dots: dict[str, Any] = {"style": _LINE, "markers": _markers(sweep.colours), "alpha": 0.8}
        sns.scatterplot(known, s=30, linewidth=0, **dots, **how)
    else:
        sns.lineplot(known, errorbar=WHOLE_RANGE, linewidth=1.4, **how)
        sns.scatterplot(known, s=11, linewidth=0, alpha=0.7, **how)
    axes.grid(axis="y")
    _scale(axes, scale, distinct(sweep.done[column]), ticked=not scattered)


def _scale(axes: Axes, scale: str, values: list[float], *, ticked: bool) -> None:
    """The same range of x in all panels, zero on the y axis, and ticks at the values if asked."""
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    positive = [value for value in values if value > 0]
    if scale == "log" and len(positive) == len(values):
        axes.set_xscale("log")
    elif scale == "log" and positive:  # zero is drawn beside the smallest value
        axes.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    if ticked:
        axes.xaxis.set_major_locator(FixedLocator(values, nbins=_TICKS))
        axes.xaxis.set_minor_locator(NullLocator())
    axes.update_datalim([(values[0], 0.0), (values[-1], 0.0)])
    axes.margins(x=0.04, y=0.05)
    axes.autoscale_view()


def _markers(lines: Iterable[str]) -> dict[str, str]:
    """A shape for each line, so that dots at the same place can be distinguished."""
    return dict(zip(lines, cycle(_SHAPES), strict=False))


def _draw_rows(axes: Axes, sweep: _Sweep, known: pd.DataFrame, what: tuple[str, str]) -> None:
    """A row for each category, and in it a place for each line."""
    import seaborn as sns

    column, name = what
    names = names_of(distinct(sweep.done[column]))
    wrapped = {value: textwrap.fill(text, 26) for value, text in names.items()}
    rows = list(dict.fromkeys(wrapped.values()))
    known = known.assign(**{_PLACE: known[column].map(wrapped)})
    how: dict[str, Any] = {"x": name, "y": _PLACE, "order": rows, "hue": _LINE, "ax": axes}
    how |= {"palette": sweep.colours, "hue_order": [*sweep.colours], "legend": False}
    apart = 0.8 * (1 - 1 / len(sweep.colours))  # as far as a strip plot puts its dots
    sns.stripplot(known, dodge=bool(apart), jitter=False, size=3.3, alpha=0.7, **how)
    means: dict[str, Any] = {"errorbar": WHOLE_RANGE, "linestyle": "none", "markersize": 6}
    sns.pointplot(known, dodge=apart or False, err_kws={"linewidth": 1.2}, **means, **how)
    axes.update_datalim([(0.0, 0.0)], updatey=False)
    axes.margins(x=0.05)
    axes.autoscale_view(scaley=False)
    axes.set_ylabel("" if column == METHOD else sweep.label(column))
    axes.set_xlabel(_unit(sweep, name))
    axes.grid(axis="x")


def _report_undefined(axes: Axes, undefined: int, runs: int) -> None:
    if undefined:
        lines = [axes.get_xlabel(), f"(undefined in {undefined} of {runs} runs)"]
        axes.set_xlabel("\n".join(filter(None, lines)))


def _unit(sweep: _Sweep, name: str) -> str:
    """The unit of a figure, unless its label has it."""
    entry = CATALOGUE.find(name)
    return "" if entry is None or "[" in sweep.label(name) else entry.unit


def _legend(made: Figure, sweep: _Sweep, dots: bool, about: str) -> None:
    """The lines of all panels, in as many columns as their names allow; and the signs used."""
    colours = sweep.colours
    if len(colours) == 1:
        made.supxlabel(about, fontsize=8, color=paint.MUTED, x=0.01, ha="left")
        return
    shapes = _markers(colours)
    across = max(1, _LETTERS // (max(map(len, colours)) + 8))
    handles = [
        paint.sign(colour, line, shapes[line]) if dots else paint.swatch(colour, line)
        for line, colour in colours.items()
    ]
    made.legend(handles=handles, loc="outside lower left", ncols=min(across, len(colours)),
                title=about, title_fontsize=8, alignment="left")  # fmt: skip


def _title(study: dict[str, Any], table: pd.DataFrame, done: pd.DataFrame) -> str:
    failed, seeds = len(table) - len(done), done[SEED].nunique()
    about = f" ({seeds} seed{'s' if seeds > 1 else ''}{f', {failed} runs failed' * bool(failed)})"
    return (study["description"] or "Sweep").rstrip(".") + about
