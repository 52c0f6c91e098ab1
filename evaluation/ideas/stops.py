"""A stop: the first lane that lacks something, before all others; and a late rank in a ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.graph.silent_rings import hops_in_order
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


# A late rank in a ring: the bytes of each hop until it is silent count the ranks in between.

IN_A_RING = "faults/thermal-ramp"
STEP, RANKS = 15, 2  # a step in which the rank is late; ranks of a server
RING_MS = 38
COLOURS = (paint.INK, paint.KINDS["dp"], paint.KINDS["pp"], paint.REBUILT)


@paint.styled
def draw_ring(scene: Scene) -> Figure:
    """Bytes of the four hops of one ring, from the begin of its collective."""
    flows, found = scene.context.flows, scene.context.connections
    topology = scene.context.topology
    late = scene.findings["culprit"].iloc[0]
    part = next(
        part for part in scene.job.phases.classes
        if part.kind == "dp"
        and late in [topology.addresses[found.src[one]] for one in part.one.connections]
    )  # fmt: skip
    hops = part.one.connections[
        hops_in_order(found.src[part.one.connections], found.dst[part.one.connections])
    ]
    hops = np.roll(hops, -[topology.addresses[found.src[one]] for one in hops].index(late))
    rows = part.one.traffic.row[part.step == STEP]
    origin_ns = int(flows.start_ns[rows].min())
    first = [rows[found.of_row[rows] == one][0] for one in hops]
    chunk = int(flows.bytes[first[1]]) / RANKS
    made = paint.figure(8, 3.5)
    axes = made.subplots()
    for place, hop in enumerate(hops.tolist()):
        own = rows[found.of_row[rows] == hop]
        times = np.column_stack((flows.start_ns[own], flows.end_ns[own])).ravel() - origin_ns
        until = np.cumsum(flows.bytes[own])
        sent = np.column_stack((until - flows.bytes[own], until)).ravel()
        colour = COLOURS[place]
        axes.plot(times / 1e6, sent / chunk, color=colour, linewidth=1.6)
        names = [topology.endpoints[side[hop]].server for side in (found.src, found.dst)]
        level = RANKS * place
        axes.annotate(f"{names[0]} to {names[1]}: {level} chunks until the silence", (12, level),
                      (0, 3), textcoords="offset points", fontsize=8, color=colour)  # fmt: skip
    axes.set_xlim(-0.5, RING_MS)
    axes.set_ylim(-0.4, 9)
    axes.set_yticks(range(0, 10, 2))
    axes.grid(axis="y")
    axes.set_xlabel("time since the begin of the collective [ms]")
    axes.set_ylabel(f"sent [chunks of {chunk / 1e6:.1f} MB]")
    return made
