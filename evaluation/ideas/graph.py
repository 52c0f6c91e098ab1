"""A step as a graph: what two pipelines compute, send and wait for, where one server is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.durations import Durations
from llmprism.numerics.arrays import Floats
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCENARIO = "faults/slow-server"
STEP = 10  # one in which the server is slow
HEALTHY, SLOW = "10.0.0.2", "10.0.1.2"  # first stages of the two pipelines
NAMES = ("usual pipeline", "pipeline with a slow server")
ROWS = (0.0, 1.0, 2.5, 3.5)


@paint.styled
def draw(scene: Scene) -> Figure:
    """A row for each rank of two pipelines, in one step."""
    durations = scene.durations()
    number = durations.job.pipelines.number
    first = [rank for rank in range(number.size) if durations.address(rank) in (HEALTHY, SLOW)]
    shown = [int(rank) for one in first for rank in np.flatnonzero(number == number[one])]
    made = paint.figure(8, 3.9)
    axes = made.subplots()
    origin_ns = _begin_ns(durations)
    for row, rank in zip(ROWS, shown, strict=True):
        _draw_rank(axes, durations, rank, row, origin_ns)
    _draw_messages(axes, durations, dict(zip(shown, ROWS, strict=True)), origin_ns)
    names = [
        f"{durations.address(rank)}\nstage {durations.job.pipelines.stage[rank]}" for rank in shown
    ]
    axes.set_yticks(ROWS, names)
    axes.set_ylim(ROWS[-1] + 0.4, -0.8)
    for row, words in zip(ROWS[::2], NAMES, strict=True):
        axes.text(0, row - 0.38, words, fontsize=8, va="bottom")
    axes.set_xlabel(f"time in step {STEP} [ms]")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    made.legend(handles=[
        paint.swatch(paint.WORK["compute"], "computation"),
        paint.swatch(paint.KINDS["pp"], "message: transfer"),
        paint.swatch(paint.KINDS["dp"], "collective: transfer"),
        paint.swatch(paint.PAPER, "waiting", hatch="////", edgecolor=paint.GRID),
    ], loc="outside lower center", ncols=4)  # fmt: skip
    return made


def _begin_ns(durations: Durations) -> float:
    """When the last rank ended the step before."""
    return float(np.nanmax(durations.job.ranks.end[:, STEP - 1]))


def _draw_rank(axes: Axes, durations: Durations, rank: int, row: float, origin_ns: float) -> None:
    """Computation and collectives of one rank; what remains of the row is waiting."""
    nodes, graph = durations.measured.nodes, durations.measured
    end_ns = float(durations.job.ranks.end[rank, STEP])
    axes.broken_barh([(0, (end_ns - origin_ns) / 1e6)], (row - 0.3, 0.6), facecolor=paint.PAPER,
                     edgecolor=paint.GRID, hatch="////", linewidth=0.5)  # fmt: skip
    own = np.flatnonzero(nodes.rank == rank)
    of = nodes.operation[own]
    of = of[~nodes.are_messages[of]]
    begin, end = nodes.begin[of, STEP], nodes.end[of, STEP]
    moved = np.column_stack((begin - origin_ns, end - begin))[np.isfinite(begin + end)] / 1e6
    _bars(axes, moved, (row - 0.3, 0.6), paint.KINDS["dp"])
    join, compute = nodes.join[own, STEP], graph.compute[own, STEP]
    known = np.isfinite(join + compute)
    begin = np.maximum(join - compute, origin_ns)[known]
    _bars(axes, np.column_stack((begin - origin_ns, join[known] - begin)) / 1e6,
          (row - 0.3, 0.6), paint.WORK["compute"])  # fmt: skip
    _bars(axes, moved, (row + 0.1, 0.2), paint.KINDS["dp"])


def _bars(axes: Axes, bars: Floats, box: tuple[float, float], colour: str) -> None:
    """Bars of one colour; those of computation have a thin gap between them."""
    gap = 0.4 if colour == paint.WORK["compute"] else 0
    axes.broken_barh(
        [*map(tuple, bars)], box, facecolor=colour, edgecolor=paint.PAPER, linewidth=gap
    )


def _draw_messages(
    axes: Axes, durations: Durations, row: dict[int, float], origin_ns: float
) -> None:
    """A line for each message, from the begin at its sender to the end at its receiver."""
    nodes = durations.measured.nodes
    sends, gets = (np.isfinite(times).any(axis=1) for times in (nodes.join, nodes.arrive))
    for operation in np.flatnonzero(nodes.are_messages).tolist():
        own = nodes.operation == operation
        sender, receiver = (int(nodes.rank[own & side][0]) for side in (sends, gets))
        if sender not in row or receiver not in row:
            continue
        times = np.array([nodes.begin[operation, STEP], nodes.end[operation, STEP]]) - origin_ns
        edge = 0.3 * np.sign(row[receiver] - row[sender])
        axes.plot(times / 1e6, [row[sender] + edge, row[receiver] - edge],
                  color=paint.KINDS["pp"], linewidth=1.1)  # fmt: skip
