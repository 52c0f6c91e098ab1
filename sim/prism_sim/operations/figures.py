"""Means of policies over replications, with intervals, as a table and a picture."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

COLUMNS = (
    "ettr",
    "detect_s",
    "localise_s",
    "recover_s",
    "by_hand",
    "false_alarms",
    "false_alarm_gpu_hours",
    "lost_gpu_hours",
)


def means(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each policy: the mean of each figure, and half of the 95 % interval of the ETTR."""
    groups = table.groupby("policy", sort=False)
    found = groups[list(COLUMNS)].mean()
    found.insert(1, "ettr_half", 1.96 * groups["ettr"].sem())
    return found


def lost_by_cause(table: pd.DataFrame) -> pd.DataFrame:
    """Mean lost GPU-hours: a row for each policy, a column for each cause, the largest first."""
    lost = pd.DataFrame(list(table["lost_by_cause"]), index=table["policy"]).fillna(0.0)
    by_policy = lost.groupby(level=0, sort=False).mean()
    order = by_policy.sum().sort_values(ascending=False).index
    return by_policy[order]


def draw(table: pd.DataFrame, path: Path) -> None:
    """Write a picture: the ETTR of each replication and its mean, and lost GPU-hours by cause."""
    import seaborn as sns
    from matplotlib.figure import Figure

    number = table["policy"].nunique()
    figure = Figure(figsize=(11, 1.8 + 0.45 * number), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    sns.pointplot(
        table, x="ettr", y="policy", errorbar=("ci", 95), seed=1, linestyle="none", ax=left
    )
    left.set(xlabel="effective training time ratio, 95 % interval", ylabel="")
    lost = lost_by_cause(table) / 1000
    begin = pd.Series(0.0, index=lost.index)
    colours = sns.color_palette("tab20", len(lost.columns))
    for colour, cause in zip(colours, lost.columns, strict=True):
        right.barh(range(number), lost[cause], left=begin, color=colour, label=cause)
        begin = begin + lost[cause]
    right.set(xlabel="lost time [1,000 GPU-hours]")
    right.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(path, dpi=120)
