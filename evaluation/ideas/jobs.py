"""Jobs are what circulates: connections of all addresses, and the rings and lines in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evaluation.ideas.scenes import Scene
from llmprism.methods.prism.context import JobView
from llmprism.methods.prism.graph.silent_rings import hops_in_order
from llmprism.numerics.arrays import Floats
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCENARIO = "workloads/placement-random"
APART = 2.0  # columns between the ranks of a ring that has a row of its own
BOW = 0.3  # of a hop that passes others: how far it bends


@paint.styled
def draw(scene: Scene) -> Figure:
    """On the left addresses in their order; on the right each job by stage and pipeline."""
    made = paint.figure(8, 4.3)
    left, right = made.subplots(1, 2, width_ratios=(1, 1.25))
    _circle(left, scene)
    _jobs(right, scene)
    for axes in (left, right):
        paint.quiet(axes)
        axes.set_xticks([])
        axes.set_yticks([])
    return made


def _circle(axes: Axes, scene: Scene) -> None:
    """All addresses on a circle, and a line for each connection that carries data."""
    found, addresses = scene.context.connections, len(scene.context.topology.addresses)
    angle = 2 * np.pi * np.arange(addresses) / addresses
    place = np.column_stack((np.sin(angle), np.cos(angle)))
    for one in np.flatnonzero(found.carries).tolist():
        ends = place[[found.src[one], found.dst[one]]]
        axes.plot(*ends.T, color=paint.KINDS["missing"], linewidth=0.6, alpha=0.6)
    axes.scatter(place[:, 0], place[:, 1], s=14, color=paint.INK, zorder=3)
    axes.set_aspect("equal")
    axes.set_title("The records: who sends to whom")
    axes.set_xlabel(f"{addresses} addresses in their order, {int(found.carries.sum())} connections")


def _jobs(axes: Axes, scene: Scene) -> None:
    """A block for each job; a row for each stage, a column for each pipeline."""
    top = 0.0
    jobs = sorted(scene.context.jobs, key=lambda job: -job.phases.endpoints.size)
    for job in jobs:
        place = _places(scene, job)
        place[:, 1] = top - place[:, 1]
        _draw_job(axes, scene, job, place)
        stages = job.pipelines.length
        words = f"{stages} stages" if stages > 1 else "no pipeline"
        axes.text(-0.5, top + 0.62, f"{job.name}: {job.phases.endpoints.size} ranks, {words}",
                  fontsize=8)  # fmt: skip
        top = place[:, 1].min() - 2.1
    axes.legend(handles=[
        paint.swatch(paint.KINDS["pp"], "line of stages (PP)"),
        paint.swatch(paint.KINDS["dp"], "ring of replicas (DP)"),
    ], loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)  # fmt: skip
    axes.set_xlim(-0.8, 11.8)
    axes.set_ylim(top + 1.2, 1.3)
    axes.set_title("What was found in them")


def _places(scene: Scene, job: JobView) -> Floats:
    """Column and row of each rank: a column is a pipeline, in the order of a ring; a row a stage.

    Without a pipeline, each ring has a row of its own.
    """
    rings = [_in_order(scene, job, group) for group in range(int(job.groups.max()) + 1)]
    stage, number = job.pipelines.stage, job.pipelines.number
    if job.pipelines.length < 2:
        place = np.zeros((stage.size, 2))
        for row, ring in enumerate(rings):
            place[ring] = np.column_stack((APART * np.arange(len(ring)), np.full(len(ring), row)))
        return place
    blocks: list[list[int]] = []
    for ring in sorted(rings, key=lambda one: int(stage[one[0]])):
        own = number[ring].tolist()
        block = next((one for one in blocks if set(one) & set(own)), None)
        if block is None:
            blocks.append(own)
        else:  # a stage may hide a member of its ring that another stage shows
            block += [one for one in own if one not in block]
    lines = [one for block in blocks for one in block]
    lines += [one for one in np.unique(number).tolist() if one not in lines]
    column = np.array([lines.index(int(one)) for one in number])
    return np.column_stack((column, 1.5 * stage)).astype(np.float64)


def _in_order(scene: Scene, job: JobView, group: int) -> list[int]:
    """The ranks of a data-parallel group, one hop of their ring after the other."""
    found, ends = scene.context.connections, job.phases.endpoints
    own = [one for part in job.phases.classes if part.kind == "dp"
           for one in part.one.connections.tolist()
           if job.groups[np.searchsorted(ends, found.src[one])] == group]  # fmt: skip
    hops = hops_in_order(found.src[own], found.dst[own])
    ring: list[int] = np.searchsorted(ends, found.src[own][hops]).tolist()
    return ring


def _draw_job(axes: Axes, scene: Scene, job: JobView, place: Floats) -> None:
    """The ranks of a job, its lines, and its rings; hops that pass others are bows."""
    found, ends = scene.context.connections, job.phases.endpoints
    beside = 1 if job.pipelines.length > 1 else APART
    for part in job.phases.classes:
        for one in part.one.connections.tolist():
            a, b = (int(np.searchsorted(ends, side[one])) for side in (found.src, found.dst))
            across = place[b][0] - place[a][0]
            far = part.kind == "dp" and abs(across) > beside
            bend = BOW * np.sign(across) / np.sqrt(abs(across)) if far else 0.0
            above = 1 if job.pipelines.stage[a] < 1 else -1
            axes.annotate("", place[b], place[a], arrowprops={
                "arrowstyle": "-|>,head_length=0.25,head_width=0.1", "shrinkA": 3, "shrinkB": 3,
                "color": paint.KINDS[part.kind], "linewidth": 0.9,
                "connectionstyle": f"arc3,rad={-above * bend}",
            })  # fmt: skip
    axes.scatter(place[:, 0], place[:, 1], s=16, color=paint.INK, zorder=3)
