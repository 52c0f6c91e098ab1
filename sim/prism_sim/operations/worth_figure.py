"""The picture of what a diagnosis is worth: the ETTR over each of its qualities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from prism_sim.operations.results import LABELS
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINES = ("#0072b2", "#d55e00", "#009e73", "#aa3377")
_SHAPES = "osD^vP"


@paint.styled
def draw(points: pd.DataFrame) -> Figure:
    """A panel for each quality; methods are at their measured values."""
    made = paint.figure(11, 3.4)
    shown = [quality for quality in LABELS if (points["quality"] == quality).any()]
    methods = [name for name in points["method"].unique() if name]
    kinds = list(points["localisation"].unique())
    panels = made.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, quality in zip(panels, shown, strict=True):
        _panel(axes, points[points["quality"] == quality], methods, kinds)
        axes.set_xlabel(LABELS[quality])
        axes.grid(axis="y")
    panels[0].set_ylabel("effective training time ratio")
    handles: list[Any] = [
        paint.swatch(_LINES[at], f"{kind} localise") for at, kind in enumerate(kinds)
    ]
    handles += [
        paint.sign(paint.INK, name, _SHAPES[at % len(_SHAPES)]) for at, name in enumerate(methods)
    ]
    made.legend(handles=handles, loc="outside lower left", ncols=len(handles))
    return made


def _panel(axes: Axes, points: pd.DataFrame, methods: list[str], kinds: list[str]) -> None:
    import seaborn as sns

    how: Any = {"x": "value", "y": "ettr", "ax": axes, "errorbar": ("ci", 95), "seed": 1}
    curve = points[points["method"] == ""]
    colours = dict(zip(kinds, _LINES, strict=False))
    sns.lineplot(curve, hue="localisation", palette=colours, legend=False, **how)
    placed = points[points["method"] != ""].groupby(["method", "value"], sort=False)["ettr"]
    for method, value, ratio in placed.mean().reset_index().itertuples(index=False):
        shape = _SHAPES[methods.index(method) % len(_SHAPES)]
        axes.plot(value, ratio, shape, color=paint.INK, markersize=7, zorder=4)
    if (points["quality"] == "delay_s").any():
        ticks = sorted(curve["value"].unique())
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
