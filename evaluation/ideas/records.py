"""Connections: which of them carry training data, by volume and typical record, and what for.

Activations wait for their gradients; rings divide what they move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.records.connections import LIGHT_BYTES
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCENARIO = "telemetry/tcp-cluster"
PIPELINES, STEP = "workloads/one-f-one-b", 2
BYTES = {1: "none", 1e2: "100 B", 1e4: "10 kB", 1e6: "1 MB", 1e8: "100 MB", 1e10: "10 GB"}


@paint.styled
def draw(scene: Scene) -> Figure:
    """A column for each connection, the largest first; what is set aside is grey."""
    found = scene.context.connections
    total, typical = (np.maximum(size, 1) for size in (found.total_bytes, found.typical_bytes))
    order = np.argsort(-total, kind="stable")
    place = np.empty(len(found), np.int64)
    place[order] = np.arange(len(found))
    kind = np.full(len(found), "", dtype="<U8")
    for job in scene.context.jobs:
        for part in job.phases.classes:
            kind[part.one.connections] = part.kind
    shown = (
        (kind == "dp", paint.KINDS["dp"], "s", "carries data: data-parallel"),
        (kind == "pp", paint.KINDS["pp"], "o", "carries data: pipeline"),
        (found.carries & (kind == ""), paint.KINDS["other"], "D", "in no job: nothing comes back"),
        (found.answer, paint.REBUILT, "v", "set aside: only answers another connection"),
        (~found.carries & ~found.answer, paint.MUTED, "X", "set aside: carries too little"),
    )
    made = paint.figure(8, 3.5)
    axes = made.subplots()
    axes.vlines(place, typical, total, color=paint.GRID, linewidth=1.2, zorder=1)
    axes.scatter(
        place, typical, marker="_", s=26, color=paint.MUTED, label="typical record of a connection"
    )
    for chosen, colour, marker, label in shown:
        axes.scatter(place[chosen], total[chosen], s=24, marker=marker, color=colour, linewidth=0,
                     label=f"{label} ({int(chosen.sum())})")  # fmt: skip
    axes.axhline(LIGHT_BYTES, color=paint.MUTED, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.annotate("one page of memory", (1, LIGHT_BYTES), (100, 3), fontsize=8, color=paint.MUTED,
                  textcoords="offset points")  # fmt: skip
    axes.set_yscale("log")
    axes.set_yticks(list(BYTES), list(BYTES.values()))
    axes.set_yticks([], minor=True)
    axes.set_ylim(0.5, 3e10)
    axes.set_xlabel("connections, the largest first")
    axes.set_ylabel("payload [bytes]")
    axes.grid(axis="y")
    axes.legend(loc="upper right")
    return made


@paint.styled
def draw_kinds(scene: Scene) -> Figure:
    """Activations of one pipeline that have no gradient yet, for each couple of stages."""
    flows, job, found = scene.context.flows, scene.job, scene.context.connections
    stage, number, ends = job.pipelines.stage, job.pipelines.number, job.phases.endpoints
    made = paint.figure(8, 3.5)
    panels = made.subplots(job.pipelines.length - 1, 1, sharex=True)
    line = [int(ends[(number == 0) & (stage == one)][0]) for one in range(job.pipelines.length)]
    own = np.flatnonzero(np.isin(found.src, line) & np.isin(found.dst, line))
    rows = np.concatenate([part.one.traffic.row[part.step == STEP] for part in job.phases.classes])
    rows = np.sort(rows[np.isin(found.of_row[rows], own)])
    origin_ns = int(flows.start_ns[rows].min())
    last_ms = (int(flows.end_ns[rows].max()) - origin_ns) / 1e6
    for couple, axes in enumerate(panels):
        forth = rows[(flows.src[rows] == line[couple]) & (flows.dst[rows] == line[couple + 1])]
        back = rows[(flows.src[rows] == line[couple + 1]) & (flows.dst[rows] == line[couple])]
        times = np.concatenate((flows.start_ns[forth], flows.start_ns[back])) - origin_ns
        change = np.repeat([1, -1], [forth.size, back.size])
        order = np.argsort(times, kind="stable")
        at_ms = np.concatenate(([0], times[order], [1e6 * last_ms])) / 1e6
        waiting = np.concatenate(([0], np.cumsum(change[order]), [0]))
        axes.fill_between(at_ms, waiting, step="post", color=paint.KINDS["pp"], alpha=0.3,
                          linewidth=0)  # fmt: skip
        axes.step(at_ms, waiting, where="post", color=paint.KINDS["pp"], linewidth=1.2)
        axes.set_ylim(0, 4.4)
        axes.set_yticks([0, 1, 2, 3, 4])
        axes.set_title(f"Stage {couple} to {couple + 1}: {forth.size} there and {back.size} back, "
                       f"at most {waiting.max()} wait", fontsize=9)  # fmt: skip
        axes.grid(axis="y")
        axes.set_xlim(-0.01 * last_ms, 1.01 * last_ms)
    panels[1].set_ylabel("activations without gradient")
    panels[-1].set_xlabel("time in a step [ms]")
    return made
