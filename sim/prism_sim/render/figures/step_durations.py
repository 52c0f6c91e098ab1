"""Durations of steps over time, with the windows of faults and the findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from prism_sim.render import look, paint
from prism_sim.run_folder import Run
from prism_sim.score import read_score
from prism_sim.score.alarms import affected_jobs
from prism_sim.score.jobs import members, overlaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Step durations, faults and findings"
CAPTION = (
    "Each panel is a job, each step drawn at its end by how long it took. The line is the true "
    "median over the ranks, the grey band holds the middle 90 % of them, the green dots are the "
    "rebuilt steps of each NIC (of some, where there are thousands). Yellow bands are the windows "
    "of injected faults. Below, each finding is in the row of its culprit: filled if it is a true "
    "alarm, hollow if it is false."
)
OWN_CAPTION = (
    "Each panel is a job, each step drawn at its end by how long it took. The green dots are the "
    "rebuilt steps of each NIC (of some, where there are thousands). Below, each finding is in the "
    "row of its culprit."
)

_JOBS = 4
_ROWS = 10
_DOTS = 2000
_VECTOR_DOTS = 600  # beyond, the dots of a panel are one image


@paint.styled
def draw(run: Run) -> Figure:
    """Step durations of up to four jobs, with fault windows; findings in rows below."""
    lines = _lines(run)
    if not lines:
        return paint.sentence("No step durations: neither truth nor diagnosis has steps.")
    rows = _rows(look.diagnosis(run, "findings"))
    names = list(lines)[:_JOBS]
    heights = [1.7] * len(names) + [0.35 + 0.19 * max(len(rows), 1)]
    made = paint.figure(11, 1.1 + 1.06 * sum(heights))
    axes = made.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    origin = look.origin_ns(run)
    faults = look.truth(run, "faults")
    axes[-1].set_xlim(*_extent(run, lines, origin))
    for panel, name in zip(axes, names, strict=False):
        top = _draw_job(panel, name, lines[name], origin)
        hit = [name in affected_jobs(fault) for _, fault in faults.iterrows()]
        mine = faults[np.array(hit, bool)]
        free = paint.fault_windows(panel, mine, origin, look.truth(run, "ranks"))
        panel.set_ylim(0, top / max(free - 0.05, 0.3))
    _draw_findings(axes[-1], run, rows, origin)
    paint.fault_windows(axes[-1], faults, origin)
    paint.clock_axis(axes[-1], origin)
    made.legend(handles=_entries(run), loc="outside lower left", ncols=6)
    paint.title(made, _finding(run, len(lines)))
    return made


def _extent(
    run: Run, lines: dict[str, dict[str, pd.DataFrame]], origin: int
) -> tuple[float, float]:
    """From the first step or finding to the last [s]."""
    times = look.diagnosis(run, "findings")[["start_ns", "end_ns"]].dropna()
    ends = [float(part["end_ns"].max()) for kinds in lines.values() for part in kinds.values()]
    first = min(origin, times["start_ns"].min()) if len(times) else origin
    last = max([*ends, times["end_ns"].max()]) if len(times) else max(ends)
    return (first - origin) / 1e9, (last - origin) / 1e9 + 0.01 * (last - first) / 1e9


def _lines(run: Run) -> dict[str, dict[str, pd.DataFrame]]:
    """By job, those that faults hit and the largest first: true and rebuilt durations."""
    true, inferred = look.truth(run, "steps"), look.diagnosis(run, "steps")
    ranks, jobs = look.truth(run, "ranks"), look.diagnosis(run, "jobs")
    lines: dict[str, dict[str, pd.DataFrame]] = {
        str(job): {"true": _true_durations(part)} for job, part in true.groupby("job")
    }
    best = overlaps(members(ranks), members(jobs)).drop_duplicates("true")
    stands_for = dict(zip(best["found"], best["true"], strict=True))
    for job, part in inferred.groupby("job"):
        if job in stands_for or not len(true):
            dots = _durations(_thinned(part))
            lines.setdefault(stands_for.get(job, str(job)), {})["rebuilt"] = dots
    size = (ranks if len(ranks) else jobs)["job"].value_counts()
    hit = {name for _, row in look.truth(run, "faults").iterrows() for name in affected_jobs(row)}
    order = sorted(lines, key=lambda job: (job not in hit, -int(size.get(job, 0)), job))
    return {job: lines[job] for job in order}


def _true_durations(steps: pd.DataFrame) -> pd.DataFrame:
    """Durations of every rank, each step at the median of its ends."""
    frame = _durations(steps)
    return frame.assign(end_ns=frame.groupby("step")["end_ns"].transform("median"))


def _durations(steps: pd.DataFrame) -> pd.DataFrame:
    length = (steps["end_ns"] - steps["start_ns"]) / 1e6
    return pd.DataFrame({"step": steps["step"], "end_ns": steps["end_ns"], "length_ms": length})


def _thinned(steps: pd.DataFrame) -> pd.DataFrame:
    """All steps of as many addresses, evenly chosen, as there is room for dots."""
    addresses = sorted(steps["address"].unique())
    every = -(-len(steps) // _DOTS)
    return steps[steps["address"].isin(addresses[::every])]


def _draw_job(axes: Axes, name: str, kinds: dict[str, pd.DataFrame], origin: int) -> float:
    """Draw dots, line and band of one job; return the largest duration shown [ms]."""
    import seaborn as sns

    tops = []
    if "rebuilt" in kinds:
        dots = kinds["rebuilt"]
        x = (dots["end_ns"] - origin) / 1e9
        image = len(dots) > _VECTOR_DOTS
        how: dict[str, Any] = {"color": paint.REBUILT, "alpha": 0.55, "linewidths": 0}
        sns.scatterplot(x=x, y=dots["length_ms"], s=13, rasterized=image, ax=axes, **how)
        tops.append(float(dots["length_ms"].quantile(0.99)))
    if "true" in kinds:
        line = kinds["true"]
        for _, attempt in line.groupby(_attempts(line)):
            sns.lineplot(
                x=(attempt["end_ns"] - origin) / 1e9, y=attempt["length_ms"], color=paint.INK,
                linewidth=1, estimator="median", errorbar=("pi", 90), err_kws={"linewidth": 0},
                ax=axes,
            )  # fmt: skip
        tops.append(float(line["length_ms"].groupby(line["step"]).quantile(0.95).max()))
    axes.set(xlabel="", ylabel="step [ms]")
    lacking = "" if "rebuilt" in kinds else ": no found job stands for it"
    axes.set_title(paint.job_heading(name) + lacking)
    axes.grid(axis="y")
    return max(tops) * 1.05


def _attempts(steps: pd.DataFrame) -> pd.Series:
    """Number of the attempt of each row: no line crosses the time in which a job did not train."""
    borders = steps.groupby("end_ns")["length_ms"].median()
    silent_ms = np.diff(borders.index.to_numpy(float), prepend=borders.index[0]) / 1e6 - borders
    return steps["end_ns"].map((silent_ms > borders.median()).cumsum())


def _rows(findings: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Findings by culprit: rows of the most severe ones, and one row for all others."""
    if not len(findings):
        return []
    names = findings["culprit"].fillna(findings["job"]).fillna("?").astype(str)
    weight = findings["magnitude"].abs().groupby(names).sum().sort_values(ascending=False)
    kept = list(weight.index[:_ROWS] if len(weight) > _ROWS + 1 else weight.index)
    rows = [(_short(name), findings[names == name]) for name in kept]
    rest = findings[~names.isin(kept)]
    if len(rest):
        rows.append((f"{len(weight) - len(kept)} more", rest))
    return rows


def _short(name: str) -> str:
    return name if len(name) <= 34 else f"{name[:31]}..."


def _draw_findings(axes: Axes, run: Run, rows: list[tuple[str, pd.DataFrame]], origin: int) -> None:
    score = read_score(run)
    known = score.faults.true_findings if score else None
    for row, (_, part) in enumerate(rows):
        part = part.dropna(subset=["start_ns", "end_ns"])
        start = (part["start_ns"].to_numpy(float) - origin) / 1e9
        length = np.maximum((part["end_ns"] - part["start_ns"]).to_numpy(float) / 1e9, 1e-9)
        true = part["finding"].isin(known).to_numpy() if known is not None else np.ones(len(part))
        for kind in (True, False):
            bars = np.stack([start, length], axis=1)[true.astype(bool) == kind]
            face: dict[str, Any] = {"facecolor": paint.FINDING if kind else "none"}
            axes.broken_barh(bars, (row - 0.3, 0.6), edgecolor=paint.FINDING, linewidth=1, **face)
    axes.set_title("Findings" if rows else "Findings: none")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y")


def _entries(run: Run) -> list[Any]:
    from matplotlib.lines import Line2D

    known = len(look.truth(run, "steps")) > 0
    entries: list[Any] = []
    if known:
        entries.append(Line2D([], [], color=paint.INK, label="true median, 90 % of ranks"))
    dot: dict[str, Any] = {"color": paint.REBUILT, "marker": "o", "markersize": 4, "linestyle": ""}
    entries.append(Line2D([], [], label="rebuilt", **dot))
    if len(look.truth(run, "faults")):
        entries.append(paint.swatch(paint.FAULT, "active fault", alpha=0.3))
    if len(look.diagnosis(run, "findings")):
        entries.append(paint.swatch(paint.FINDING, "true alarm" if known else "finding"))
        if known:
            entries.append(paint.swatch("none", "false alarm", edgecolor=paint.FINDING))
    return entries


def _finding(run: Run, jobs: int) -> str:
    score = read_score(run)
    findings = len(look.diagnosis(run, "findings"))
    shown = f" ({_JOBS} of {jobs} jobs shown)" if jobs > _JOBS else ""
    if score is None:
        return f"{findings} findings{shown}"
    faults = score.faults
    if not faults.injected:
        false = faults.false_alarms
        return f"No fault was injected; {false} of {findings} findings are false alarms{shown}"
    found = f"{faults.detected} of {faults.injected} faults detected"
    return f"{found}; {faults.true_alarms} of {findings} findings are true alarms{shown}"
