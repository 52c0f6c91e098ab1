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
    made = paint.figure(5 * len(tables), 4.4)
    every = made.subplots(1, len(tables), squeeze=False, sharey=True)[0]
    for axes, name in zip(every, tables, strict=True):
        _panel(axes, [one for one in bins if one["answers"] == name])
        axes.set_title(name)
    every[0].set_ylabel("share that is right [%]")
    signs = [paint.sign(paint.REBUILT, "share that is right, with its 95 % interval", "o"),
             paint.swatch(paint.INK, "mean confidence")]  # fmt: skip
    made.legend(handles=signs, loc="outside lower left", ncols=2)
    paint.title(made, "How often answers are right, over the confidence that they have")
    return made


def _panel(axes: Axes, bins: Sequence[Bin]) -> None:
    """A place for each range of confidences: the mean confidence, and the share that is right."""
    bins = sorted(bins, key=lambda one: one["low"])
    for place, one in enumerate(bins):
        around = share(round(one["right"] * one["count"]), one["count"])
        low, high = around["low"], around["high"]
        y = one["right"]
        axes.errorbar([place], [100 * y], [[100 * max(0.0, y - low)], [100 * max(0.0, high - y)]],
                      color=paint.REBUILT, marker="o", linewidth=1.2)  # fmt: skip
        axes.hlines(100 * one["confidence"], place - 0.32, place + 0.32, color=paint.INK)
    names = [f"{100 * one['low']:.0f}\N{EN DASH}{100 * one['high']:.0f}\n({one['count']:,})"
             for one in bins]  # fmt: skip
    axes.set_xticks(range(len(bins)), names)
    axes.set(xlim=(-0.6, len(bins) - 0.4), ylim=(-3, 103))
    axes.set_xlabel("confidence [%], and number of answers")
    axes.grid(axis="y")
