"""Steps are bytes that repeat: silences that part equal bytes are those between steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.segment.lanes import lanes_of
from llmprism.methods.prism.segment.levels import Level, levels_of
from llmprism.numerics.arrays import Codes
from prism_sim.render import paint

if TYPE_CHECKING:
    from llmprism.methods.prism.classes.classes import TrafficClass
    from llmprism.methods.prism.records.traffic import Traffic
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCENARIO = "faults/slow-server"
SHOWN = 4  # steps of the upper panel
TICKS = {1: "1", 3: "3", 10: "10", 30: "30", 100: "100"}


@paint.styled
def draw(scene: Scene) -> Figure:
    """Bytes of one class by time with the steps found, and how equal the parts of each level are."""
    part = next(one for one in scene.job.phases.classes if one.kind == "pp")
    made = paint.figure(8, 4.6)
    above, below = made.subplots(2, 1, height_ratios=(3, 2))
    _curve(above, part.one.traffic, part.step)
    _thresholds(below, part.one, scene.job.count)
    return made


def _curve(axes: Axes, traffic: Traffic, step: Codes) -> None:
    """Bytes sent so far, with the begin of each step."""
    own = step <= SHOWN
    since_ms = (traffic.start_ns - traffic.start_ns[0]) / 1e6
    sent = np.cumsum(traffic.size) / 1e9
    axes.step(since_ms[own], sent[own], where="post", color=paint.KINDS["pp"], linewidth=1.3)
    for number in range(SHOWN):
        rows = np.flatnonzero(step == number)
        size = traffic.size[rows].sum() / 1e9
        axes.axvline(since_ms[rows[0]], color=paint.REBUILT, linewidth=1.4)
        axes.annotate(f"step {number}: {size:.3f} GB", (since_ms[rows[0]], 0.98), (5, 0), va="top",
                      fontsize=8, xycoords=("data", "axes fraction"),
                      textcoords="offset points")  # fmt: skip
    end_ms = since_ms[np.flatnonzero(step == SHOWN)[0]]
    axes.axvline(end_ms, color=paint.REBUILT, linewidth=1.4)
    axes.set_xlim(-0.01 * end_ms, 1.01 * end_ms)
    axes.set_ylim(0, 1.25 * sent[own & (step < SHOWN)].max())
    axes.set_xlabel("time [ms]; green: begin of a step, as found")
    axes.set_ylabel("sent so far [GB]")
    axes.set_title("Bytes of a class of connections")
    axes.grid(axis="y")


def _thresholds(axes: Axes, one: TrafficClass, count: int) -> None:
    """How equal the parts of one lane are, and their number, for every threshold on silences."""
    levels = levels_of(lanes_of([one])[0], None)
    silence_ms = np.array([level.silence_ns for level in levels]) / 1e6
    quality = np.array([level.quality for level in levels])
    axes.plot(silence_ms, quality, marker="o", color=paint.INK, linewidth=0, markersize=4)
    for level in _labelled(levels, count):
        words = f"{level.parts} parts"
        right = level.parts == count
        axes.annotate(f"{words}: the steps" if right else words,
                      (level.silence_ns / 1e6, level.quality), (0, 6), textcoords="offset points",
                      fontsize=8, ha="center", color=paint.REBUILT if right else paint.INK)  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(list(TICKS), list(TICKS.values()))
    axes.set_xticks([], minor=True)
    axes.set_ylim(0, 1.25)
    axes.set_yticks([0, 0.5, 1])
    axes.set_xlabel("median silence between two parts [ms]")
    axes.set_ylabel("quality")
    axes.set_title(
        "Levels of one direction of two stages; parts of equal bytes have a quality near 1"
    )
    axes.grid(axis="y")


def _labelled(levels: list[Level], count: int) -> list[Level]:
    """The steps, and the finest other level."""
    steps = [level for level in levels if level.parts == count][:1]
    others = [level for level in levels if level.parts != count]
    return [*steps, *others[:1]]
