"""Pictures: the ETTR of policies, what they lose, days, the worth of a diagnosis, and sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from prism_sim.operations.results import LABELS, by_day, lost_by_cause
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


_LINES = ("#0072b2", "#d55e00", "#009e73", "#aa3377")
_SHAPES = "osD^vP"


@paint.styled
def draw_worth(points: pd.DataFrame) -> Figure:
    """A panel for each quality; methods are at their measured values."""
    made = paint.figure(11, 3.4)
    shown = [quality for quality in LABELS if (points["quality"] == quality).any()]
    methods = [name for name in points["method"].unique() if name]
    kinds = list(points["localisation"].unique())
    panels = made.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, quality in zip(panels, shown, strict=True):
        _panel(axes, points[points["quality"] == quality], methods, kinds)
        axes.set_xlabel(LABELS[quality])
        axes.grid(axis="y")
    panels[0].set_ylabel("effective training time ratio")
    handles: list[Any] = [
        paint.swatch(_LINES[at], f"{kind} localise") for at, kind in enumerate(kinds)
    ]
    handles += [
        paint.sign(paint.INK, name, _SHAPES[at % len(_SHAPES)]) for at, name in enumerate(methods)
    ]
    made.legend(handles=handles, loc="outside lower left", ncols=len(handles))
    return made


def _panel(axes: Axes, points: pd.DataFrame, methods: list[str], kinds: list[str]) -> None:
    import seaborn as sns

    how: Any = {"x": "value", "y": "ettr", "ax": axes, "errorbar": ("ci", 95), "seed": 1}
    curve = points[points["method"] == ""]
    colours = dict(zip(kinds, _LINES, strict=False))
    sns.lineplot(curve, hue="localisation", palette=colours, legend=False, **how)
    placed = points[points["method"] != ""].groupby(["method", "value"], sort=False)["ettr"]
    for method, value, ratio in placed.mean().reset_index().itertuples(index=False):
        shape = _SHAPES[methods.index(method) % len(_SHAPES)]
        axes.plot(value, ratio, shape, color=paint.INK, markersize=7, zorder=4)
    if (points["quality"] == "delay_s").any():
        ticks = sorted(curve["value"].unique())
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)


@paint.styled
def draw_sweep(found: pd.DataFrame) -> Figure:
    """Heat maps of the means of a sweep over two keys, one for each policy; lines over one key."""
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
