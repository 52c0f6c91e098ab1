"""Shares of correct pairs in the results of E2, and their pictures, by window and disturbance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean as mean
from typing import TYPE_CHECKING, Any

from prism_sim.toolkit import paint
from reproduction.base import OTHER_METHOD, Done
from reproduction.e2_pairs.levels import CACHE, COLLECTORS, DISTURBANCES, MESSAGES, UNDISTURBED
from reproduction.pages import mean_and_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PUBLISHED = {60: 0.9600, 180: 0.9793, 300: 0.9803, 600: 0.9961}
"""Accuracy without refinement by window [s] (table I); with it, 1 at all four."""

RAW, REFINED, OTHER = "accuracy_unrefined", "accuracy", "accuracy_other"
LOOK = {RAW: (paint.KINDS["dp"], "without refinement"), REFINED: (paint.REBUILT, "with refinement")}
OTHER_LOOK = (paint.KINDS["pp"], f"method {OTHER_METHOD}")

NAMES = {UNDISTURBED: "undisturbed", MESSAGES: "lossy, messages known", CACHE: "lossy, flow cache"}
"""Names of the collectors on the page."""


Entry = tuple[int, dict[str, Any]]
"""Seed, and the scores of one window of its records."""


def _entries(done: Sequence[Done], what: str, wanted: Mapping[str, Any]) -> Iterator[Entry]:
    """The scores that have a figure, and have the wanted window, collector, or disturbance."""
    for one in done:
        for entry in (*one.result["windows"], *one.result["curves"]):
            if what in entry and wanted.items() <= entry.items():
                yield one.trial.scenario.seed, entry


def values_of(done: Sequence[Done], name: str, what: str = RAW, **wanted: Any) -> list[Any]:
    """The windows or levels with a share of correct pairs, in their order."""
    return sorted({e[name] for _, e in _entries(done, what, wanted) if name in e})


def by_seed(done: Sequence[Done], what: str, **wanted: Any) -> list[float]:
    """Share of correct pairs over all jobs of a seed, one value for each seed."""
    right: dict[int, float] = {}
    total: dict[int, int] = {}
    for seed, entry in _entries(done, what, wanted):
        right[seed] = right.get(seed, 0.0) + entry["total"] * entry[what]
        total[seed] = total.get(seed, 0) + entry["total"]
    return [right[seed] / total[seed] for seed in right]


def span(window_s: float) -> str:
    return f"{window_s // 60:g} min" if window_s % 60 == 0 else f"{window_s:g} s"


def short(level: float) -> str:
    return f"{level:g}" if 1e-3 <= level < 1e4 else f"{level:.2g}".replace("e-0", "e-")


@paint.styled
def draw_windows(done: Sequence[Done]) -> Figure:
    made = paint.figure(11, 3.6)
    panels = made.subplots(1, len(COLLECTORS), sharey=True)
    windows = values_of(done, "window_s")
    others = values_of(done, "window_s", OTHER)
    for axes, collector in zip(panels, COLLECTORS, strict=True):
        for what, (colour, label) in LOOK.items():
            values = [by_seed(done, what, window_s=w, collector=collector) for w in windows]
            dashed = what == REFINED
            _band(axes, range(len(windows)), values, colour, f"ours, {label}", dashed)
        values = [by_seed(done, OTHER, window_s=w, collector=collector) for w in others]
        places = [windows.index(window_s) for window_s in others]
        _band(axes, places, values, OTHER_LOOK[0], f"ours, {OTHER_LOOK[1]}", dashed=False)
        known = [n for n, window_s in enumerate(windows) if window_s in PUBLISHED]
        for what, (colour, label) in LOOK.items():
            published = [100 * PUBLISHED[windows[n]] if what == RAW else 100.0 for n in known]
            axes.scatter(known, published, marker="D", s=26, facecolor="none", edgecolor=colour,
                         label=f"published, {label}", zorder=3)  # fmt: skip
        axes.set_xticks(range(len(windows)), [span(window_s) for window_s in windows])
        axes.set_title(NAMES[collector].capitalize(), fontsize=8.5)
        axes.grid(axis="y")
    panels[0].set_ylabel("correct pair types [%]")
    handles, labels = panels[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower left", ncols=4)
    paint.title(made, "Correct pair types, by the length of the window")
    return made


@paint.styled
def draw_noise(done: Sequence[Done]) -> Figure:
    from matplotlib.ticker import MaxNLocator

    made = paint.figure(11, 6.2)
    rows = made.subplots(2, 3, sharey="row")
    for axes, name in zip(rows.ravel(), DISTURBANCES, strict=True):
        _draw_disturbance(axes, done, name)
    for row in rows:
        lowest = min(axes.dataLim.y0 for axes in row)
        floor = 5 * (lowest // 5)
        row[0].set_ylim(floor, 100 + 0.04 * (100 - floor))
        row[0].yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        row[0].set_ylabel("correct pair types [%]")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower left", ncols=4)
    shortest = span(values_of(done, "window_s")[0])
    paint.title(made, f"Correct pair types in {shortest}, one disturbance at a time")
    return made


def _draw_disturbance(axes: Axes, done: Sequence[Done], name: str) -> None:
    """Draw the curves of one disturbance; ticks at equal distances do not overlap."""
    disturbance, levels = DISTURBANCES[name], values_of(done, "level", disturbance=name)
    clean = {"window_s": values_of(done, "window_s")[0], "collector": UNDISTURBED}
    places = range(1, len(levels) + 1) if disturbance.log else levels
    for what, (colour, label) in LOOK.items():
        refined = what == REFINED
        values = [by_seed(done, what, disturbance=name, level=level) for level in levels]
        _band(axes, places, values, colour, label, dashed=refined)
        start = 100 * mean(by_seed(done, what, **clean))
        axes.scatter([0], [start], s=14 if refined else 40, color=colour, zorder=3)
        line = 100.0 if refined else 100 * PUBLISHED[60]
        axes.axhline(line, color=colour, linewidth=0.9, linestyle=":", zorder=1,
                     label=f"published, {label}")  # fmt: skip
    none = "messages" if name == "merging" else "0"
    axes.set_xticks([0, *places], [none, *map(short, levels)])
    axes.tick_params(axis="x", labelsize=7.5)
    axes.set_title(disturbance.title, fontsize=9)
    axes.set_xlabel(disturbance.unit)
    axes.grid(axis="y")


def _band(
    axes: Axes,
    places: Iterable[float],
    values: list[list[float]],
    colour: str,
    label: str,
    dashed: bool = False,
) -> None:
    """Draw mean and range over the seeds; a ``dashed`` line does not hide one below it."""
    scaled = [[100 * value for value in many] for many in values]
    how: dict[str, Any] = {"marker": "o", "markersize": 3.5 if dashed else 4.5, "linewidth": 1.4}
    how |= {"linestyle": (0, (3, 2)) if dashed else "-", "color": colour, "label": label}
    mean_and_range(axes, list(places), scaled, **how)
