"""Runs the studies of a sweep, and draws its heat map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from prism_sim.operations import running
from prism_sim.operations.results import half_interval
from prism_sim.operations.study import Study
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]


def run(study: Study, folder: Path, processes: int) -> Iterator[Row]:
    """A row for each replication of each policy at each point: its values, seed and figures.

    A failed replication has the key ``error``.
    """
    for point in study.sweep.points if study.sweep else ():
        for task, outcome in running.run(point.study, folder, processes):
            who = {**point.values, "policy": task.policy.name, "seed": task.seed}
            ratio = outcome.result["ettr"] if outcome.result else None
            yield {**who, "ettr": ratio, "error": outcome.error}


def means(study: Study, rows: list[Row]) -> pd.DataFrame:
    """Mean ETTR of each policy at each point, and half of its 95 % interval."""
    assert study.sweep is not None
    keys = [*study.sweep.over, "policy"]
    ratios = pd.DataFrame(rows).groupby(keys, sort=False)["ettr"]
    return ratios.mean().to_frame().assign(ettr_half=ratios.agg(half_interval)).reset_index()


@paint.styled
def draw(found: pd.DataFrame) -> Figure:
    """Heat maps of :func:`means` over two keys, one for each policy; lines over one key."""
    import seaborn as sns

    keys = [key for key in found.columns if key not in ("policy", "ettr", "ettr_half")]
    policies = list(found["policy"].unique())
    if len(keys) == 1:
        made = paint.figure(8, 3.6)
        axes = made.subplots()
        sns.lineplot(found, x=keys[0], y="ettr", hue="policy", marker="o", ax=axes)
        axes.set(ylabel="effective training time ratio")
        return made
    made = paint.figure(11, 0.8 + 0.3 * found[keys[0]].nunique() * len(policies) + len(policies))
    panels = made.subplots(len(policies), 1, sharex=True, squeeze=False)[:, 0]
    limits = {"vmin": found["ettr"].min(), "vmax": found["ettr"].max()}
    for axes, policy in zip(panels, policies, strict=True):
        own = found[found["policy"] == policy]
        wide = own.pivot_table(index=keys[0], columns=keys[1], values="ettr", sort=False)
        sns.heatmap(wide, annot=True, fmt=".3f", cmap="viridis", ax=axes, **limits)
        axes.set_title(policy)
    return made
