"""What a connection is for: activations wait for their gradients; rings divide what they move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCENARIO = "workloads/one-f-one-b"
STEP = 2


@paint.styled
def draw(scene: Scene) -> Figure:
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
