"""A figure of captures and their twins: counts, sizes, lengths, and records per pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from evaluation.twins import likeness
from evaluation.twins.likeness import GAPS_MS, Observation
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REAL, TWIN = paint.INK, paint.WRONG
MIDDLE_MS = 5
"""Idle gap for sizes, lengths and pairs: the idle gap of the captures' ``flows``."""
SIZE_TICKS = {1.0: "none", 1e2: "100", 1e4: "10 k", 1e6: "1 M"}
LENGTH_TICKS = {1.0: "1", 10.0: "10", 100.0: "100"}
ROLES = {
    "pp": ("PP", paint.KINDS["pp"], "o"),
    "dp, with data": ("DP, with data", paint.KINDS["dp"], "s"),
    "dp, against data": ("DP, against data", paint.KINDS["other"], "^"),
}


class TwinComparison(NamedTuple):
    """A capture, its twins of several seeds, and a short description."""

    name: str
    about: str
    real: Observation
    twins: Sequence[Observation]


@paint.styled
def draw(cases: Sequence[TwinComparison]) -> Figure:
    """Draw a row for each case: records by idle gap, sizes, lengths, records per pair and step."""
    made = paint.figure(15, 0.6 + 3.1 * len(cases))
    panels = made.subplots(len(cases), 4, squeeze=False)
    for row, case in zip(panels, cases, strict=True):
        tables = [case.real.flows, *(twin.flows for twin in case.twins)]
        middle = [likeness.coarser(flows, MIDDLE_MS * 1e6) for flows in tables]
        _counts(row[0], case)
        _spread(row[1], middle, _payload, SIZE_TICKS, "payload of a record [bytes]")
        _spread(row[2], middle, _length_ms, LENGTH_TICKS, "length of a record with data [ms]")
        _pairs(row[3], case, middle)
    for row, case in zip(panels, cases, strict=True):
        titles = (f"{case.name}: records", "sizes", "lengths", "records per pair and step")
        for axes, text in zip(row, titles, strict=True):
            axes.set_title(text)
        corner: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
        corner["bbox"] = {"facecolor": paint.PAPER, "edgecolor": "none", "pad": 1.5}
        row[0].annotate(case.about, (0.98, 0.97), color=paint.MUTED, fontsize=8, **corner)
    panels[0][0].legend(loc="lower left")
    panels[0][3].legend(loc="upper left")
    seeds = len(cases[0].twins)
    paint.title(made, f"Real captures and their simulated twins ({seeds} seeds)")
    return made


def _counts(axes: Axes, case: TwinComparison) -> None:
    """Draw the number of records over the idle gap."""
    import seaborn as sns

    for observations, colour, label in (
        ([case.real], REAL, "real"), (case.twins, TWIN, "twin: mean and range")
    ):  # fmt: skip
        found = [
            (gap, len(likeness.coarser(one.flows, gap * 1e6)))
            for one in observations
            for gap in GAPS_MS
        ]
        gaps, records = zip(*found, strict=True)
        style: dict[str, Any] = {"marker": "o", "markersize": 5, "linewidth": 1.4, "color": colour}
        style |= {"errorbar": ("pi", 100), "label": label, "legend": False}
        sns.lineplot(x=gaps, y=records, ax=axes, **style)
    axes.set_xscale("log")
    axes.set_xticks(GAPS_MS, [str(gap) for gap in GAPS_MS])
    axes.set_xticks([], minor=True)
    axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("idle gap that ends a record [ms]")
    axes.set_ylabel("records")
    axes.grid(axis="y")


def _spread(
    axes: Axes, tables: Sequence[pd.DataFrame], value: Any, ticks: dict[float, str], label: str
) -> None:
    """Draw cumulative distributions on a logarithmic axis: each twin, and the capture on top."""
    import seaborn as sns

    for number, flows in reversed(list(enumerate(tables))):
        how: dict[str, Any] = {"color": REAL if number == 0 else TWIN}
        how |= {"linewidth": 1.4 if number == 0 else 0.8, "stat": "percent"}
        sns.ecdfplot(x=value(flows), ax=axes, **how)
    axes.set_xscale("log")
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xticks([], minor=True)
    axes.set_ylim(0, 102)
    axes.set_xlabel(f"{label}, idle gap {MIDDLE_MS} ms")
    axes.set_ylabel("share of records [%]")
    axes.grid(axis="y")


def _payload(flows: pd.DataFrame) -> Any:
    """Payload of each record; no payload counts as 1 byte, for the logarithmic axis."""
    return np.maximum(flows["payload"].to_numpy(), 1)


def _length_ms(flows: pd.DataFrame) -> Any:
    """Length of each record with data; at least 1 ms (merged store requests are shorter)."""
    data = flows[flows["payload"] >= likeness.SMALL_BYTES]
    return np.maximum((data["end_ns"] - data["start_ns"]).to_numpy() * 1e-6, 1.0)


def _pairs(axes: Axes, case: TwinComparison, tables: Sequence[pd.DataFrame]) -> None:
    """Draw the mean number of the twins' records over that of the capture, for each pair."""
    import seaborn as sns

    real = likeness.by_pair(case.real, tables[0])["records"]
    twins = [
        likeness.by_pair(twin, flows)["records"]
        for twin, flows in zip(case.twins, tables[1:], strict=True)
    ]
    mean = pd.concat(twins, axis=1).mean(axis=1).reindex(real.index)
    limit = float(np.ceil(1.1 * max(real.max(), mean.max())))
    axes.plot([0, limit], [0, limit], color=paint.MUTED, linewidth=0.7)
    for role, (label, colour, marker) in ROLES.items():
        if role in real.index.get_level_values("role"):
            how: dict[str, Any] = {"marker": marker, "s": 24, "alpha": 0.8, "linewidth": 0}
            how |= {"color": colour, "label": label, "legend": False}
            sns.scatterplot(x=real[role].to_numpy(), y=mean[role].to_numpy(), ax=axes, **how)
    axes.set_xlim(0, limit)
    axes.set_ylim(0, limit)
    axes.set_xticks(axes.get_yticks()[axes.get_yticks() <= limit])
    axes.set_xlabel(f"real, idle gap {MIDDLE_MS} ms")
    axes.set_ylabel("twin, mean of seeds")
    axes.grid(axis="both")
