"""A comparison as a figure at the width of a column: shares of every method, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
