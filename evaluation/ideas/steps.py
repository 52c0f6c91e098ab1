"""Steps: silences that part equal bytes are those between steps; and steps with a save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.cycles.cycles import Division, Traffic, divided
from llmprism.numerics.arrays import Codes, Floats
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


SCENARIO = "faults/slow-server"
SHOWN = 4  # steps of the upper panel
LEAST_NS = 1e5  # silences that are drawn
TICKS = {0.1: "0.1", 0.3: "0.3", 1: "1", 3: "3", 10: "10", 30: "30"}


@paint.styled
def draw(scene: Scene) -> Figure:
    """Bytes of one class by time with the steps found, and how equal parts are by threshold."""
    part = next(one for one in scene.job.phases.classes if one.kind == "pp")
    made = paint.figure(8, 4.6)
    above, below = made.subplots(2, 1, height_ratios=(3, 2))
    _curve(above, part.one.traffic, part.step)
    _thresholds(below, part.one.traffic, scene.job.count)
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


def _thresholds(axes: Axes, traffic: Traffic, count: int) -> None:
    """How equal the parts are, and their number, for every silence that may part steps."""
    rests_ns = traffic.rests_ns()
    before = np.concatenate(([0], np.cumsum(traffic.size))).astype(np.float64)
    least_ns = np.unique(rests_ns[rests_ns > LEAST_NS])
    parts = [divided(np.flatnonzero(rests_ns >= least) + 1, before, 1.0) for least in least_ns]
    quality = np.array([part.quality for part in parts])
    axes.step(least_ns / 1e6, quality, where="pre", color=paint.INK, linewidth=1.3)
    edges_ms = np.concatenate(([LEAST_NS], least_ns)) / 1e6
    for place in _labelled(parts, edges_ms, count):
        words = f"{len(parts[place])} parts"
        right = len(parts[place]) == count
        middle = float(np.sqrt(edges_ms[place] * edges_ms[place + 1]))
        shift = -12 if count < len(parts[place]) < 2 * count else 0
        axes.annotate(f"{words}: the steps" if right else words, (middle, quality[place]),
                      (shift, 4), textcoords="offset points", fontsize=8, ha="center",
                      color=paint.REBUILT if right else paint.INK)  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks(list(TICKS), list(TICKS.values()))
    axes.set_xticks([], minor=True)
    axes.set_ylim(0, 1.25)
    axes.set_yticks([0, 0.5, 1])
    axes.set_xlabel("shortest silence that parts two steps [ms]")
    axes.set_ylabel("quality")
    axes.set_title("Every threshold is tried; parts of equal bytes have a quality near 1")
    axes.grid(axis="y")


def _labelled(parts: list[Division], edges_ms: Floats, count: int) -> Iterator[int]:
    """The widest plateaus of the steps and of a few more parts, and the best of far more."""
    quality = np.array([part.quality for part in parts])
    width = np.diff(np.log(edges_ms)) * (quality > 0)
    sizes = np.array([len(part) for part in parts])
    yield int(np.argmax(width * (sizes == count)))
    yield int(np.argmax(width * ((sizes > count) & (sizes < 2 * count))))
    yield int(np.argmax(quality * (sizes > 10 * count)))


# Outside the graph: steps with a save are of a kind of their own.

SAVES = "faults/slow-storage"


@paint.styled
def draw_saves(scene: Scene) -> Figure:
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
