"""Outside the graph: steps with a save are of a kind of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.numerics.arrays import Floats
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCENARIO = "faults/slow-storage"


@paint.styled
def draw(scene: Scene) -> Figure:
    """Length of every step, and the speed of every save."""
    durations = scene.durations()
    steps, kind = np.arange(durations.steps), durations.reference.kind
    made = paint.figure(8, 4.0)
    above, below = made.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    length_ms = durations.job.duration_ns / 1e6
    for chosen, colour, label in (
        (kind == 0, paint.WORK["compute"], "most frequent kind of step"),
        (kind != 0, paint.KINDS["other"], "a kind of its own: every fourth step"),
    ):
        above.bar(steps[chosen], length_ms[chosen], 0.75, color=colour, label=label)
    above.set_ylabel("length of a step [ms]")
    above.set_ylim(0, 1.3 * np.nanmax(length_ms))
    above.legend(loc="upper left")
    culprit, first, last = scene.findings[["culprit", "first_step", "last_step"]].iloc[0]
    before, speed = _saves(scene, culprit)
    below.plot(before, speed, color=paint.INK, marker="o", linestyle="none", markersize=5)
    below.axvspan(first - 0.5, last + 0.5, color=paint.FINDING, alpha=0.12, linewidth=0)
    below.annotate(f"found: slow storage {culprit}", (first, 0.96), (2, 0), fontsize=8, va="top",
                   xycoords=("data", "axes fraction"), textcoords="offset points")  # fmt: skip
    below.set_ylabel("speed of a save [GB/s]")
    below.set_ylim(0, 1.35 * speed.max())
    below.set_xlim(-0.6, durations.steps - 0.4)
    below.set_xlabel("step")
    for axes in (above, below):
        axes.grid(axis="y")
    return made


def _saves(scene: Scene, culprit: str) -> tuple[Floats, Floats]:
    """The step in which each save ends, and its bytes over the time that it takes [bytes/ns]."""
    flows, topology = scene.context.flows, scene.context.topology
    stores = np.array([endpoint.server == culprit for endpoint in topology.endpoints])
    rows = np.flatnonzero(stores[flows.dst])
    rows = rows[np.argsort(flows.start_ns[rows], kind="stable")]
    apart = np.diff(flows.start_ns[rows]) > scene.job.period_ns
    saves = np.split(rows, np.flatnonzero(apart) + 1)
    begin_ns = np.array([flows.start_ns[one].min() for one in saves])
    took_ns = np.array([flows.end_ns[one].max() for one in saves]) - begin_ns
    step = np.searchsorted(scene.job.end_ns, begin_ns + took_ns)
    speed: Floats = np.array([flows.bytes[one].sum() for one in saves]) / took_ns
    return step.astype(np.float64), speed
