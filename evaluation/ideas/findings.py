"""Findings: the table of excesses, and the likelihood of windows and groups in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.culprits.base import Hypothesis
from llmprism.methods.prism.durations import Durations
from llmprism.methods.prism.search import LocatedCulprit, search
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCENARIO = "faults/slow-server"
MOST_SHOWN = 6  # hypotheses
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
    """What the culprit lost in each step, and how well every hypothesis fits the slow steps."""
    durations = scene.durations()
    found = next(iter(search(durations)))
    made = paint.figure(8, 3.3)
    left, right = made.subplots(1, 2, width_ratios=(1.25, 1))
    _steps(left, durations, found)
    _shares(right, found)
    return made


def _steps(axes: Axes, durations: Durations, found: LocatedCulprit) -> None:
    """By what each step is longer, and what the culprit lost of that."""
    longer = durations.normal.longer_ns / 1e6
    best = found.scene.rivals[0].hypothesis.lost_ns / 1e6
    at = np.arange(durations.steps)
    axes.bar(at, np.nan_to_num(longer), color="0.8", label="steps are longer by")
    axes.bar(at, best, width=0.45, color=paint.FINDING, label=f"{found.attribution.name} lost")
    axes.set_xlabel("step")
    axes.set_ylabel("ms")
    axes.set_title("What the steps are longer by")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    paint.quiet(axes)


def _shares(axes: Axes, found: LocatedCulprit) -> None:
    """The posterior of the likeliest hypotheses."""
    durations, rivals = found.scene.durations, found.scene.rivals[:MOST_SHOWN]
    names = [_name(durations, rival.hypothesis) for rival in rivals]
    axes.barh(np.arange(len(rivals)), [100 * rival.share for rival in rivals], color=paint.INK)
    axes.set_yticks(np.arange(len(rivals)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("posterior in the window [%]")
    axes.set_title("Who lost it")
    paint.quiet(axes)


def _name(durations: Durations, one: Hypothesis) -> str:
    if one.kind == "unit":
        return durations.address(one.who)
    if one.kind == "server":
        return f"{durations.server_name(one.server)}, {'any' if one.choice else 'all'} of its units"
    return f"stage {one.who}" if one.kind == "stage" else one.kind
