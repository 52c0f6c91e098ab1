"""Findings: the table of excesses, and the likelihood of windows and groups in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.groups import KINDS
from llmprism.methods.prism.groups.base import Group
from llmprism.methods.prism.windows import best_window, gain_within, penalty
from llmprism.numerics.arrays import Floats
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCENARIO = "faults/slow-server"
SHOWN = {"rank": "ranks", "server": "servers", "stage": "stages", "job": "all ranks"}
MOST = 40  # of the scale of colours [%]


@paint.styled
def draw_table(scene: Scene) -> Figure:
    """Excess of every rank in every step; a frame around what was found."""
    from matplotlib.patches import Rectangle

    durations = scene.durations()
    made = paint.figure(8, 3.7)
    axes = made.subplots()
    excess = durations.compute.excess
    order = np.lexsort((np.arange(len(excess)), durations.servers))
    image = axes.imshow(100 * excess[order], cmap="RdBu_r", vmin=-MOST, vmax=MOST,
                        aspect="auto", interpolation="nearest")  # fmt: skip
    culprit, first, last = scene.findings[["culprit", "first_step", "last_step"]].iloc[0]
    rows = [i for i, rank in enumerate(order) if _server(durations, rank) == culprit]
    axes.add_patch(Rectangle((first - 0.5, rows[0] - 0.5), last - first + 1, len(rows), fill=False,
                             edgecolor=paint.INK, linewidth=2))  # fmt: skip
    axes.annotate(f"found: {culprit}, steps {first} to {last}", (last + 0.5, np.mean(rows)), (6, 0),
                  textcoords="offset points", va="center", fontsize=9)  # fmt: skip
    axes.set_yticks(range(len(order)), [durations.address(rank) for rank in order])
    axes.set_xlabel("step")
    paint.quiet(axes)
    bar = made.colorbar(image, ax=axes, pad=0.02)
    bar.set_label("excess of the computation of a rank [%]")
    bar.outline.set_visible(False)
    return made


def _server(durations: Durations, rank: int) -> str:
    return durations.server_name(int(durations.servers[rank]))


@paint.styled
def draw_windows(scene: Scene) -> Figure:
    """Every window of the group that was found, and the best window of every group."""
    durations = scene.durations()
    culprit = scene.findings["culprit"].iloc[0]
    groups = {kind: list(KINDS[kind](durations)) for kind in SHOWN}
    found = next(
        group for group in groups["server"] if _server(durations, group.rows[0]) == culprit
    )
    made = paint.figure(8, 3.5)
    left, right = made.subplots(1, 2, width_ratios=(1, 1.15))
    _windows(left, durations, found, culprit)
    _groups(right, durations, groups)
    return made


def _windows(axes: Axes, durations: Durations, group: Group, name: str) -> None:
    """Log likelihood ratio of the windows from each step to each other one."""
    steps = durations.steps
    ratio = np.full((steps, steps), np.nan)
    for first in range(steps):
        for last in range(first, steps):
            inside = (np.arange(steps) >= first) & (np.arange(steps) <= last)
            ratio[last, first] = gain_within(group.excess, group.error, inside)
    least = penalty(len(KINDS) * group.siblings, steps)
    image = axes.imshow(np.where(ratio > least, ratio, np.nan), origin="lower", cmap="PuRd",
                        vmin=0, interpolation="nearest")  # fmt: skip
    axes.imshow(np.where(ratio <= least, 0.06, np.nan), origin="lower", cmap="Greys", vmin=0,
                vmax=1, interpolation="nearest")  # fmt: skip
    last, first = divmod(int(np.nanargmax(ratio)), steps)
    axes.annotate(f"steps {first} to {last}: {np.nanmax(ratio):.0f}", (first, last), (0.97, 0.16),
                  textcoords="axes fraction", fontsize=8, ha="right",
                  arrowprops={"arrowstyle": "-", "color": paint.INK})  # fmt: skip
    axes.set_xlabel("first step of the window")
    axes.set_ylabel("last step")
    axes.set_title(f"Every window of {name}")
    paint.quiet(axes)
    bar = axes.get_figure(root=True).colorbar(image, ax=axes, pad=0.02)  # type: ignore[union-attr]
    bar.set_label("log likelihood ratio")
    bar.outline.set_visible(False)


def _groups(axes: Axes, durations: Durations, groups: dict[str, list[Group]]) -> None:
    """The best window of each group; those above the penalty have their names."""
    for row, own in enumerate(groups.values()):
        windows = [best_window(group.excess, group.error) for group in own]
        ratio: Floats = np.maximum([window.ratio for window in windows], 0.0)
        least = penalty(len(KINDS) * len(own), durations.steps)
        axes.plot([least, least], [row - 0.35, row + 0.35], color=paint.FINDING, linewidth=1.8)
        axes.scatter(ratio, np.full(len(own), row), s=30, color=paint.INK, alpha=0.6, linewidth=0)
        above = [
            named.name
            for group, window in zip(own, windows, strict=True)
            if window.ratio > least and (named := group.named(durations, window)) is not None
        ]
        if above:
            axes.annotate(", ".join(above), (ratio.max(), row), (4, 7), ha="right", fontsize=8,
                          textcoords="offset points")  # fmt: skip
    names = [f"{len(own)} {SHOWN[kind]}" if len(own) > 1 else SHOWN[kind]
             for kind, own in groups.items()]  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(-4, None)
    axes.set_xlabel("log likelihood ratio; purple: penalty")
    axes.set_title("The best window of every group")
    axes.grid(axis="x")
