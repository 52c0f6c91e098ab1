"""A late rank in a ring: the bytes of each hop until it is silent count the ranks in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.graph.silent_rings import hops_in_order
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCENARIO = "faults/thermal-ramp"
STEP, RANKS = 15, 2  # a step in which the rank is late; ranks of a server
SHOWN_MS = 38
COLOURS = (paint.INK, paint.KINDS["dp"], paint.KINDS["pp"], paint.REBUILT)


@paint.styled
def draw(scene: Scene) -> Figure:
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
    axes.set_xlim(-0.5, SHOWN_MS)
    axes.set_ylim(-0.4, 9)
    axes.set_yticks(range(0, 10, 2))
    axes.grid(axis="y")
    axes.set_xlabel("time since the begin of the collective [ms]")
    axes.set_ylabel(f"sent [chunks of {chunk / 1e6:.1f} MB]")
    return made
