"""A stop: the first lane on which something is missing, before all others that lack something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.stops.first_missing import learned_from, state_of
from llmprism.methods.prism.stops.tails import tails_of
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCENARIO = "faults/hang"
SHOWN = 10


@paint.styled
def draw(scene: Scene) -> Figure:
    """How much lanes moved of the unfinished step, in the order in which they should go on."""
    context, job = scene.context, scene.job
    tail = next(tails_of(context, job))
    learned = learned_from(context, job, tail)
    state = state_of(context, job, tail, learned)
    records = state.records
    since_ms = (np.median(state.passed_ns - job.start_ns[learned], axis=1)) / 1e6
    lanes = np.flatnonzero(state.missing & np.isfinite(since_ms))
    lanes = lanes[np.argsort(since_ms[lanes])][:SHOWN]
    made = paint.figure(8, 3.7)
    axes = made.subplots()
    for row, lane in enumerate(lanes.tolist()):
        _draw_lane(axes, row, float(state.moved[lane]), float(since_ms[lane]), lane in state.first)
    names = context.topology.addresses
    axes.set_yticks(
        range(lanes.size),
        [f"{names[records.src[lane]]} to {names[records.dst[lane]]}" for lane in lanes],
    )
    axes.invert_yaxis()
    axes.set_xlabel("time in a finished step at which the lane goes on [ms]")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    made.legend(handles=[
        paint.sign(paint.WRONG, "first missing", "X"),
        paint.sign(paint.MUTED, "may wait for it", "o"),
    ], loc="outside lower center", ncols=2)  # fmt: skip
    return made


def _draw_lane(axes: Axes, row: int, moved: float, since_ms: float, is_first: bool) -> None:
    """When one lane goes on in finished steps, and what it has moved in the unfinished one."""
    color, marker = (paint.WRONG, "X") if is_first else (paint.MUTED, "o")
    axes.scatter(since_ms, row, s=60 if is_first else 30, marker=marker, color=color, linewidth=0)
    axes.annotate(f"{moved:.0%} moved", (since_ms, row), (9, -3), textcoords="offset points",
                  fontsize=8, color=color)  # fmt: skip
