"""Each figure of a sweep over the first path of its grid; one line per other combination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from prism_sim.render import paint
from prism_sim.run_folder import Run
from prism_sim.studies.sweep import STUDY, TABLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 2  # panels in a row
WHOLE_RANGE = ("pi", 100)  # seaborn's band from the lowest to the highest value


@paint.styled
def draw(run: Run) -> Figure:
    """Means over the seeds as lines, their range as bands, every run as a dot."""
    study, table = run.read_json(run.folder / STUDY), pd.read_parquet(run.folder / TABLE)
    done = table[table["error"].isna()]
    if not len(done):
        return paint.sentence("Every run of this sweep failed; the table has their errors.")
    names = study["figures"]
    down = -(-len(names) // _ACROSS)
    made = paint.figure(10 if len(names) > 1 else 6.5, 0.9 + 2.7 * down)
    panels = made.subplots(down, min(_ACROSS, len(names)), sharex=True, squeeze=False).ravel()
    x, *others = study["grid"]
    others += [] if done["method"].nunique() == 1 else ["method"]
    for panel, name in zip(panels, names, strict=False):
        _draw_figure(panel, study, done, (x, others, name))
    for spare in panels[len(names) :]:
        spare.set_visible(False)
    if others:
        handles, labels = panels[0].get_legend_handles_labels()
        made.legend(handles, labels, loc="outside lower left", ncols=4)
    failed = len(table) - len(done)
    seeds = done["seed"].nunique()
    about = f" ({seeds} seed{'s' if seeds > 1 else ''}{f', {failed} runs failed' * bool(failed)})"
    paint.title(made, (study["description"] or "Sweep").rstrip(".") + about)
    return made


def _draw_figure(
    axes: Axes, study: dict[str, Any], done: pd.DataFrame, what: tuple[str, list[str], str]
) -> None:
    import seaborn as sns

    x, others, name = what
    places = _places(done[x])
    lines = dict(list(done.groupby(others))) if others else {(): done}
    for (values, part), colour in zip(
        lines.items(), paint.job_colours(map(str, lines)).values(), strict=True
    ):
        part = part.assign(place=part[x].map(places))
        label = ", ".join(
            f"{_label(study, key)} {value}" for key, value in zip(others, values, strict=True)
        )
        shared: dict[str, Any] = {"x": "place", "y": name, "color": colour, "ax": axes}
        sns.lineplot(part, errorbar=WHOLE_RANGE, linewidth=1.4, label=label, legend=False, **shared)
        sns.scatterplot(part, s=11, linewidth=0, alpha=0.7, legend=False, **shared)
    _scale(axes, study, places)
    low, high = done[name].min(), done[name].max()
    if high > 0:  # and not NaN
        axes.set_ylim(min(0.0, 1.08 * low), 1.08 * high)
    axes.set_xlabel(_label(study, x))
    axes.set_ylabel("")
    axes.set_title(_label(study, name))
    axes.tick_params(labelbottom=True)
    axes.grid(axis="y")


def _places(column: pd.Series) -> dict[Any, float]:
    """Position of each value on the x axis: numbers at their value, texts in their order."""
    values = list(dict.fromkeys(column))
    if pd.api.types.is_numeric_dtype(column):
        return {value: float(value) for value in values}
    return {value: float(place) for place, value in enumerate(values)}


def _scale(axes: Axes, study: dict[str, Any], places: dict[Any, float]) -> None:
    """Ticks at the values of the grid, with the requested scale."""
    positive = [place for place in places.values() if place > 0]
    if study["x_scale"] == "log" and positive and not any(isinstance(v, str) for v in places):
        if len(positive) == len(places):
            axes.set_xscale("log")
        else:  # zero is drawn beside the smallest value
            axes.set_xscale("symlog", linthresh=min(positive), linscale=0.5)
    shown = [value if isinstance(value, str) else f"{value:g}" for value in places]
    axes.set_xticks(list(places.values()), shown)
    axes.set_xticks([], minor=True)
    axes.margins(x=0.03)


def _label(study: dict[str, Any], name: str) -> str:
    return str(study["labels"].get(name, name))
