"""Which connections carry training data: the volume of each, and the size of its typical record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.records.connections import LIGHT_BYTES
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCENARIO = "telemetry/tcp-cluster"
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
