"""Pictures of policies: their ETTR, what they lose to each cause, and how it goes by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from prism_sim.operations.results import by_day, lost_by_cause
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_CAUSES = 9


@paint.styled
def draw(table: pd.DataFrame) -> Figure:
    """The ETTR of each policy with its interval, and lost GPU-hours by cause."""
    import seaborn as sns

    number = table["policy"].nunique()
    made = paint.figure(11, 1.6 + 0.36 * number)
    left, right = made.subplots(1, 2, sharey=True)
    sns.pointplot(
        table, x="ettr", y="policy", errorbar=("ci", 95), seed=1, linestyle="none", ax=left
    )
    left.set(xlabel="effective training time ratio, 95 % interval", ylabel="")
    left.grid(axis="x")
    lost = _fewer(lost_by_cause(table) / 1000)
    begin = pd.Series(0.0, index=lost.index)
    for colour, cause in zip(sns.color_palette("tab10", 10), lost.columns, strict=False):
        right.barh(range(number), lost[cause], left=begin, color=colour, label=cause)
        begin = begin + lost[cause]
    right.set(xlabel="lost time [1,000 GPU-hours]")
    right.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return made


@paint.styled
def draw_days(table: pd.DataFrame) -> Figure:
    """The ETTR of each day, and of all days until then, of the first replication."""
    import seaborn as sns

    days = by_day(table)
    made = paint.figure(11, 3.2)
    left, right = made.subplots(1, 2, sharey=True)
    sns.lineplot(days, x="day", y="day's ETTR", hue="policy", legend=False, ax=left, lw=0.9)
    sns.lineplot(days, x="day", y="until", hue="policy", ax=right)
    left.set(ylabel="effective training time ratio", title="each day")
    right.set(title="since the start")
    right.legend(title="", loc="center left", bbox_to_anchor=(1, 0.5))
    for axes in (left, right):
        axes.grid(axis="y")
    return made


@paint.styled
def draw_times(means: pd.DataFrame) -> Figure:
    """Mean times to detect, localise and recover of each policy."""
    import seaborn as sns

    parts = {"detect_s": "detect", "localise_s": "localise", "recover_s": "recover"}
    times = means[list(parts)].rename(columns=parts).reset_index()
    times = times.melt("policy", var_name="part", value_name="seconds")
    made = paint.figure(11, 1.6 + 0.42 * len(means))
    axes = made.subplots()
    sns.barplot(times, x="seconds", y="policy", hue="part", palette="muted", ax=axes)
    axes.set(xlabel="mean time of a failure [s]", ylabel="")
    axes.legend(title="time to", loc="center left", bbox_to_anchor=(1, 0.5))
    axes.grid(axis="x")
    return made


def _fewer(lost: pd.DataFrame) -> pd.DataFrame:
    """The largest causes, and the sum of all others."""
    if len(lost.columns) <= _MOST_CAUSES + 1:
        return lost
    others = lost.iloc[:, _MOST_CAUSES:].sum(axis=1)
    return lost.iloc[:, :_MOST_CAUSES].assign(**{"all others": others})
