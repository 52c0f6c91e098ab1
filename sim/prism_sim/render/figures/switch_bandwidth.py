"""Rate of data-parallel traffic through each switch over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from llmprism.numerics.arrays import Ints
from prism_sim.render import look, paint
from prism_sim.run_folder import Run
from prism_sim.score.culprits import culprit_of
from prism_sim.score.load import Flags, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Bandwidth through switches"
CAPTION = (
    "Mean rate of the DP flow records that cross a switch (bytes of all records over the sum of "
    "their durations), in slices of time about a step long. In colour: switches that a fault "
    "affects, itself or through a NIC, and culprits of findings; all others are grey. Yellow "
    "bands are the windows of injected faults."
)
OWN_CAPTION = (
    "Mean rate of the DP flow records that cross a switch (bytes of all records over the sum of "
    "their durations), in slices of time about a step long. In colour: culprits of findings; all "
    "others are grey."
)

_SILENT = 3  # slices without traffic that end a line
_SLICES = 120
_LOUD = 5
_HUSH = 0.1  # of a switch's usual bytes in a slice; with fewer, the rate is not shown
_LOWER = 0.9  # of the usual rate is worth a headline
_UNITS = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"))
_COLOURS = ("#aa3377", "#0072b2", "#d55e00", "#332288", "#44aa99")


@paint.styled
def draw(run: Run) -> Figure:
    """One line per switch: mean DP bandwidth [Gbit/s] over time."""
    switches = [str(switch["name"]) for switch in look.json_of(run, "topology").get("switches", [])]
    flows = look.flows(run, ["start_ns", "end_ns", "src", "dst", "bytes", "path"])
    if not len(flows) or not switches or flows["path"].isna().all():
        return paint.sentence(
            "No switch bandwidth: the flow records name no switch on their paths."
        )
    flows, which = _dp_only(run, _training(run, flows))
    edges = _edges(run, flows)
    rates = _rates(flows, switches, edges)
    if not np.isfinite(rates).any():
        return paint.sentence("No switch bandwidth: no DP record names a switch that is known.")
    named = [name for name in _named(run) if name in switches][:_LOUD]
    size, unit = next((u for u in _UNITS if np.nanmax(rates) >= u[0]), _UNITS[-1])
    origin = look.origin_ns(run)
    middle = ((edges[1:] + edges[:-1]) / 2 - origin) / 1e9
    made = paint.figure(11, 3.7)
    axes = made.subplots()
    axes.set_xlim((edges[0] - origin) / 1e9, (edges[-1] - origin) / 1e9)
    _draw_lines(axes, middle, rates / size, switches, named)
    free = paint.fault_windows(axes, look.truth(run, "faults"), origin, look.truth(run, "ranks"))
    axes.set_ylim(0, float(np.nanmax(rates)) / size / max(free - 0.03, 0.3))
    paint.clock_axis(axes, origin)
    axes.set_ylabel(f"mean rate of {which} [{unit}]")
    axes.grid(axis="y")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
    in_fault = _in_fault(run, (edges[1:] + edges[:-1]) / 2)
    paint.title(made, _finding(rates, switches, named, in_fault))
    return made


def _training(run: Run, flows: pd.DataFrame) -> pd.DataFrame:
    """Records while steps were made, as far as is known: set-up traffic would hide them."""
    steps = _steps(run)
    if not len(steps):
        return flows
    first, last = steps["start_ns"].min(), steps["end_ns"].max()
    return pd.DataFrame(flows[(flows["start_ns"] >= first) & (flows["end_ns"] <= last)])


def _steps(run: Run) -> pd.DataFrame:
    """The true steps, or the inferred ones where nothing else is known."""
    true = look.truth(run, "steps")
    return true if len(true) else look.diagnosis(run, "steps")


def _dp_only(run: Run, flows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Records of pairs that were inferred to be DP, or all where none was."""
    pairs = look.diagnosis(run, "pairs")
    pairs = pairs[pairs["kind"] == "dp"]
    lookup = [
        dict(zip(flows[end].cat.categories, range(10**9), strict=False)) for end in ("src", "dst")
    ]
    if not len(pairs):
        return flows, "flow records"
    width = len(lookup[1]) + 1
    wanted = {
        lookup[0].get(src, -1) * width + lookup[1].get(dst, -1)
        for src, dst in zip(pairs["src"], pairs["dst"], strict=True)
    }
    key = flows["src"].cat.codes.astype(np.int64) * width + flows["dst"].cat.codes
    return flows[np.isin(key, list(wanted))], "DP flow records"


def _edges(run: Run, flows: pd.DataFrame) -> Floats:
    """Slices of a step's length, or longer ones where they would be too many."""
    steps = _steps(run)
    first, last = float(flows["start_ns"].min()), float(flows["end_ns"].max())
    step = float((steps["end_ns"] - steps["start_ns"]).median()) if len(steps) else 0.0
    slices = int(np.clip((last - first) / step if step else _SLICES, 1, _SLICES))
    return np.linspace(first, max(last, first + 1), slices + 1)


def _rates(flows: pd.DataFrame, switches: list[str], edges: Floats) -> Floats:
    """Mean rate [bit/s], shape (switches, slices); NaN where hardly anything crossed."""
    slices = len(edges) - 1
    path = flows["path"].cat.codes.to_numpy(np.int64)
    middle = (flows["start_ns"].to_numpy(float) + flows["end_ns"].to_numpy(float)) / 2
    slot = np.clip(np.searchsorted(edges, middle, "right") - 1, 0, slices - 1)
    known = path >= 0
    cell = (path * slices + slot)[known]
    size = (len(flows["path"].cat.categories), slices)
    bits, time = (
        np.bincount(cell, values[known], size[0] * size[1]).reshape(size)
        for values in (
            8.0 * flows["bytes"].to_numpy(float),
            (flows["end_ns"] - flows["start_ns"]).to_numpy(float),
        )
    )
    crossing = _crossing(list(flows["path"].cat.categories), switches)
    through, busy_s = crossing @ bits, crossing @ time / 1e9
    usual = np.array([np.median(row[row > 0]) if (row > 0).any() else 1.0 for row in through])
    enough = (busy_s > 0) & (through >= _HUSH * usual[:, None])
    return np.where(enough, through / np.where(enough, busy_s, 1.0), np.nan)


def _crossing(paths: list[str], switches: list[str]) -> Floats:
    """1 where a path goes through a switch, shape (switches, paths)."""
    place = {name: n for n, name in enumerate(switches)}
    crossing = np.zeros((len(switches), len(paths)))
    for column, path in enumerate(paths):
        rows = [place[hop] for hop in path.split("|") if hop in place]
        crossing[rows, column] = 1.0
    return crossing


def _named(run: Run) -> list[str]:
    """Names that a fault or a finding gives, and the leaves of the NICs that faults affect."""
    faults, findings = look.truth(run, "faults"), look.diagnosis(run, "findings")
    ranks = look.truth(run, "ranks")
    affected = [
        name
        for fault in (culprit_of(row, ranks) for _, row in faults.iterrows())
        if fault
        for name in fault[1].split("|")
    ]
    leaf_of = {
        end.get("address"): end.get("switch")
        for end in look.json_of(run, "topology").get("endpoints", [])
    }
    blamed = findings.loc[findings["culprit_kind"] == "switch"].sort_values("magnitude")
    names = [*affected, *(leaf_of.get(name) for name in affected), *blamed["culprit"].iloc[::-1]]
    return list(dict.fromkeys(str(name) for name in names if name))


def _draw_lines(
    axes: Axes, x: Floats, rates: Floats, switches: list[str], named: list[str]
) -> None:
    import seaborn as sns

    table = pd.DataFrame(rates.T, columns=switches).assign(time=x, stretch=_stretches(rates))
    table = table.melt(["time", "stretch"], var_name="switch", value_name="rate").dropna()
    table["line"] = table["switch"] + " " + table["stretch"].astype(str)
    others = table[~table["switch"].isin(named)]
    style: dict[str, Any] = {"estimator": None, "drawstyle": "steps-mid", "ax": axes}
    style["units"] = "line"
    if len(others):
        dim: dict[str, Any] = {"color": paint.MUTED, "alpha": 0.45, "linewidth": 0.9}
        sns.lineplot(others, x="time", y="rate", **dim, **style)
        count = others["switch"].nunique()
        axes.lines[0].set_label(f"{'other ' if named else ''}switches ({count})")
    palette = dict(zip(named, _COLOURS, strict=False))
    shown = table[table["switch"].isin(palette)]
    if len(shown):
        hues: dict[str, Any] = {"hue": "switch", "hue_order": named, "palette": palette}
        sns.lineplot(shown, x="time", y="rate", linewidth=1.8, **hues, **style)


def _stretches(rates: Floats) -> Ints:
    """Number of each slice's stretch of traffic; no line crosses a silence of all switches."""
    busy = np.flatnonzero(np.isfinite(rates).any(axis=0))
    begins = busy[1:][np.diff(busy) > _SILENT]
    return np.searchsorted(begins, np.arange(rates.shape[1]), "right")


def _in_fault(run: Run, middle: Floats) -> Flags:
    """Slices whose middle lies in the window of a fault."""
    in_fault = np.zeros(len(middle), bool)
    for _, fault in look.truth(run, "faults").dropna(subset=["start_ns"]).iterrows():
        end = np.inf if pd.isna(fault["end_ns"]) else fault["end_ns"]
        in_fault |= (middle >= fault["start_ns"]) & (middle < end)
    return in_fault


def _finding(rates: Floats, switches: list[str], named: list[str], in_fault: Flags) -> str:
    headline = (
        f"DP traffic moves at {_bandwidth(float(np.nanmedian(rates)))} through the median switch"
    )
    for name in named:
        row = rates[switches.index(name)]
        known = np.isfinite(row)
        if (known & in_fault).any() and (known & ~in_fault).any():
            then, usual = np.median(row[known & in_fault]), np.median(row[known & ~in_fault])
            if then < _LOWER * usual:
                slow = f"at {_bandwidth(then)} while a fault lasts"
                return f"DP traffic through {name} moves {slow}, {_bandwidth(usual)} otherwise"
    return headline


def _bandwidth(rate_bps: float) -> str:
    size, unit = next((u for u in _UNITS if rate_bps >= u[0]), _UNITS[-1])
    return f"{rate_bps / size:.3g} {unit}"
