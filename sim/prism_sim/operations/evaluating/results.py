"""Makespans of all schedulers as a table, a picture and a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from prism_sim.operations.evaluating.cluster import Cluster
from prism_sim.operations.evaluating.study import Evaluation
from prism_sim.render import paint
from prism_sim.studies.paired import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def table_of(study: Evaluation) -> pd.DataFrame:
    """A row for each scheduler, number of nodes and seed.

    ``faster`` is the baseline's makespan divided by this one; ``useful`` is the part of the
    held GPU time in which a GPU infers.
    """
    rows = [
        {"scheduler": scheduler.name, "nodes": nodes, "seed": seed, **_run(study, place)}
        for nodes in study.nodes
        for scheduler in study.schedulers
        for seed in range(1, study.seeds + 1)
        for place in [(scheduler, nodes, seed)]
    ]
    table = pd.DataFrame(rows)
    base = table[table["scheduler"] == study.schedulers[0].name]
    makespans = base.set_index(["nodes", "seed"])["makespan_s"]
    places = pd.MultiIndex.from_frame(table[["nodes", "seed"]])
    return table.assign(faster=makespans.loc[places].to_numpy() / table["makespan_s"])


def _run(study: Evaluation, place: tuple[Any, int, int]) -> dict[str, float]:
    outcome = Cluster(study, *place).run()
    useful = outcome.phases_s["inference"] / outcome.held_s
    return {"makespan_s": outcome.makespan_s, "useful": useful}


def means(table: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, with half of the 95 % interval of ``faster``."""
    groups = table.groupby(["nodes", "scheduler"], sort=False)
    found = groups[["makespan_s", "faster", "useful"]].mean()
    found["faster_half"] = groups["faster"].agg(lambda values: Estimate.of(values).half)
    return found.reset_index()


@paint.styled
def draw(table: pd.DataFrame) -> Figure:
    """How much faster each scheduler is than the baseline, by number of nodes."""
    import seaborn as sns

    made = paint.figure(9, 1.4 + 0.5 * table["scheduler"].nunique())
    axes = made.subplots()
    sns.barplot(
        table, x="faster", y="scheduler", hue="nodes", palette="muted", errorbar=("ci", 95),
        seed=1, ax=axes,
    )  # fmt: skip
    axes.set(xlabel="makespan of the first scheduler / makespan", ylabel="")
    axes.grid(axis="x")
    return made
