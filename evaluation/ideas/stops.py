"""A stop: the first message that is missing although all that it needs has arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.stops.progress import Needs, Progress
from llmprism.methods.prism.stops.tails import tails_of
from llmprism.numerics.arrays import Floats
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCENARIO = "faults/hang"


@paint.styled
def draw(scene: Scene) -> Figure:
    """Messages of two pipelines in the unfinished step, and when they usually begin."""
    context, job = scene.context, scene.job
    tail = next(tails_of(context, job))
    needs = Needs(context, job, tail.rows["pp"], tail.begin_ns)
    number, ends = job.pipelines.number, job.phases.endpoints.tolist()
    addresses = [context.topology.addresses[end] for end in ends]
    stopped = int(number[addresses.index(scene.findings["culprit"].iloc[0])])
    other = next(one for one in np.unique(number).tolist() if one not in (stopped, -1))
    shown = [rank for one in (stopped, other) for rank in np.flatnonzero(number == one).tolist()]
    made = paint.figure(8, 3.7)
    axes = made.subplots()
    for row, rank in enumerate(shown):
        _draw_rank(axes, needs.of(ends[rank]), row)
    names = [f"{addresses[rank]}\nstage {job.pipelines.stage[rank]}" for rank in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.5, -0.6)
    axes.axhline(1.5, color=paint.MUTED, linewidth=0.7)
    axes.set_xlabel(f"time in step {tail.step}, which never ends [ms]")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    hollow = paint.sign(paint.MUTED, "when it is usually sent", "o")
    hollow.set_markerfacecolor("none")
    made.legend(handles=[
        hollow,
        paint.sign(paint.KINDS["pp"], "message sent", "o"),
        paint.sign(paint.KINDS["cp"], "message received", "v"),
        paint.sign(paint.WRONG, "first missing message", "X"),
    ], loc="outside lower center", ncols=4)  # fmt: skip
    return made


def _draw_rank(axes: Axes, progress: Progress, row: int) -> None:
    """What one rank sends and receives in the unfinished step, and what is missing."""
    origin_ns = progress.shown_ns
    usual_ms = _usually_sent_ms(progress)
    axes.scatter(usual_ms, np.full(usual_ms.size, row - 0.22), s=26, facecolor="none",
                 edgecolor=paint.MUTED)  # fmt: skip
    sent_ms = (progress.sent_ns - origin_ns) / 1e6
    axes.scatter(sent_ms, np.full(sent_ms.size, row), s=28, color=paint.KINDS["pp"], linewidth=0)
    came_ns = progress.tail.end_ns[progress.tail.dst == progress.end]
    axes.scatter((came_ns - origin_ns) / 1e6, np.full(came_ns.size, row + 0.22), s=24, marker="v",
                 color=paint.KINDS["cp"], linewidth=0)  # fmt: skip
    if progress.ready_ns() is None:
        return
    due_ms = (progress.due_ns() - origin_ns) / 1e6
    axes.scatter(due_ms, row, s=60, marker="X", color=paint.WRONG, linewidth=0)
    axes.annotate("it has all that it needs, and does not send", (due_ms, row), (10, -3),
                  textcoords="offset points", fontsize=8, color=paint.WRONG)  # fmt: skip


def _usually_sent_ms(progress: Progress) -> Floats:
    """Median time of each message after the begin of a finished step [ms]."""
    own = progress.learned.src == progress.end
    step = progress.learned.step[own]
    after_ns = progress.learned.begin_ns[own] - progress.first_ns[step]
    steps = [np.sort(after_ns[step == one]) for one in np.unique(step)]
    fewest = min(len(one) for one in steps)
    usual_ms: Floats = np.median([one[:fewest] for one in steps], axis=0) / 1e6
    return usual_ms
