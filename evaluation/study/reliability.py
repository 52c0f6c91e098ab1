"""The reliability diagram: how often answers are right, over the confidence that they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from evaluation.exam.intervals import share
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Bin(TypedDict):
    """Answers of one table whose confidence lies between ``low`` and ``high``.

    ``confidence`` is their mean, ``right`` the share of them that is right, of ``count`` answers.
    """

    answers: str
    low: float
    high: float
    confidence: float
    right: float
    count: int


@paint.styled
def draw(bins: Sequence[Bin]) -> Figure:
    """Draw a panel for each table of answers."""
    tables = sorted({one["answers"] for one in bins})
    made = paint.figure(4.5 * len(tables), 4.6)
    for axes, name in zip(made.subplots(1, len(tables), squeeze=False)[0], tables, strict=True):
        _panel(axes, [one for one in bins if one["answers"] == name])
        axes.set_title(name)
    paint.title(made, "How often answers are right, over the confidence that they have")
    return made


def _panel(axes: Axes, bins: Sequence[Bin]) -> None:
    axes.plot([0, 1], [0, 1], color=paint.MUTED, linewidth=1, linestyle="--")
    for one in bins:
        around = share(round(one["right"] * one["count"]), one["count"])
        low, high = around["low"], around["high"]
        x, y = one["confidence"], one["right"]
        axes.errorbar([x], [y], [[max(0.0, y - low)], [max(0.0, high - y)]], color=paint.REBUILT,
                      marker="o", linewidth=1)  # fmt: skip
        axes.annotate(f"{one['count']:,}", (x, y), (6, -3), textcoords="offset points", fontsize=8)
    axes.set(xlim=(0, 1.15), ylim=(-0.05, 1.05), aspect="equal")
    axes.set_xlabel("mean confidence")
    axes.set_ylabel("share that is right")
