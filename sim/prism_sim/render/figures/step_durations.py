"""How long steps took over time, when faults were at work, and what was flagged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from prism_sim.render import look, paint
from prism_sim.run import Run
from prism_sim.score.faults import affected_jobs
from prism_sim.score.jobs import members, overlaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Step durations, faults and findings"
CAPTION = (
    "Each panel is a job: the median over its ranks of how long a step took, at the step's end; "
    "true in ink, rebuilt in green, with the range over the job's NICs shaded. Yellow "
    "bands are the windows of injected faults. Below, each finding in the row of what it names: "
    "filled if it is a true alarm, hollow if it is false, where the truth is known."
)

_JOBS = 4
_ROWS = 10


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
    end = max(float(part["end_ns"].max()) for kinds in lines.values() for part in kinds.values())
    axes[-1].set_xlim(0, (end - origin) / 1e9 * 1.01)
    for panel, name in zip(axes, names, strict=False):
        _draw_job(panel, name, lines[name], origin)
        hit = [name in affected_jobs(fault) for _, fault in faults.iterrows()]
        mine = faults[np.array(hit, bool)]
        paint.fault_windows(panel, mine, origin, look.truth(run, "ranks"))
    _draw_findings(axes[-1], run, rows, origin)
    paint.fault_windows(axes[-1], faults, origin)
    axes[-1].set_xlabel("time since the first step [s]")
    made.legend(handles=_entries(run), loc="outside lower left", ncols=6)
    paint.title(made, _finding(run, len(lines)))
    return made


def _lines(run: Run) -> dict[str, dict[str, pd.DataFrame]]:
    """By job, largest first: the true and the rebuilt line, as far as there are any."""
    true, said = look.truth(run, "steps"), look.diagnosis(run, "steps")
    ranks, jobs = look.truth(run, "ranks"), look.diagnosis(run, "jobs")
    lines: dict[str, dict[str, pd.DataFrame]] = {
        str(job): {"true": _line(part, "rank")} for job, part in true.groupby("job")
    }
    best = overlaps(members(ranks), members(jobs)).drop_duplicates("true")
    stands_for = dict(zip(best["found"], best["true"], strict=True))
    for job, part in said.groupby("job"):
        if job in stands_for or not len(true):
            lines.setdefault(stands_for.get(job, str(job)), {})["rebuilt"] = _line(part, "address")
    size = (ranks if len(ranks) else jobs)["job"].value_counts()
    return dict(sorted(lines.items(), key=lambda item: (-int(size.get(item[0], 0)), item[0])))


def _line(steps: pd.DataFrame, member: str) -> pd.DataFrame:
    """Median duration and range over the members, step by step, against the median end."""
    ordered = steps.sort_values([member, "start_ns"])
    told = ordered.assign(
        turn=ordered.groupby(member).cumcount(), length=ordered["end_ns"] - ordered["start_ns"]
    )
    parts = told.groupby("turn")
    return pd.DataFrame(
        {
            "end_ns": parts["end_ns"].median(),
            "median": parts["length"].median() / 1e6,
            "low": parts["length"].min() / 1e6,
            "high": parts["length"].max() / 1e6,
        }
    )


def _draw_job(axes: Axes, name: str, kinds: dict[str, pd.DataFrame], origin: int) -> None:
    if "rebuilt" in kinds:
        line = kinds["rebuilt"]
        x = (line["end_ns"] - origin) / 1e9
        colour = paint.REBUILT
        axes.fill_between(x, line["low"], line["high"], color=colour, alpha=0.18, linewidth=0)
        axes.plot(x, line["median"], color=colour, marker="o", markersize=3.2, linewidth=1.2)
    if "true" in kinds:
        line = kinds["true"]
        x = (line["end_ns"] - origin) / 1e9
        axes.plot(x, line["median"], color=paint.INK, linewidth=0.9)
    top = max(float(line["median"].max()) for line in kinds.values())
    axes.set_ylim(0, top * 1.3)
    axes.set_ylabel("step [ms]")
    axes.set_title(f"Job {name}" + ("" if "rebuilt" in kinds else ": no step was rebuilt"))
    axes.grid(axis="y")


def _rows(findings: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Findings by what they name, the most severe rows; the rest in one more."""
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
    known = look.json_of(run, "score").get("faults", {}).get("true_findings")
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
    entries: list[Any] = [Line2D([], [], color=paint.INK, label="true")] if known else []
    entries.append(Line2D([], [], color=paint.REBUILT, marker="o", markersize=3, label="rebuilt"))
    entries.append(paint.swatch(paint.REBUILT, "range over NICs", alpha=0.18))
    if len(look.truth(run, "faults")):
        entries.append(paint.swatch(paint.FAULT, "fault at work", alpha=0.3))
    if len(look.diagnosis(run, "findings")):
        entries.append(paint.swatch(paint.FINDING, "true alarm" if known else "finding"))
        if known:
            entries.append(paint.swatch("none", "false alarm", edgecolor=paint.FINDING))
    return entries


def _finding(run: Run, jobs: int) -> str:
    score = look.json_of(run, "score").get("faults", {})
    findings = len(look.diagnosis(run, "findings"))
    shown = f" (the {_JOBS} largest of {jobs} jobs)" if jobs > _JOBS else ""
    if not score:
        return f"{findings} findings{shown}"
    if not score["injected"]:
        return f"No fault was injected; {findings} findings, all of them false alarms{shown}"
    found = f"{score['detected']} of {score['injected']} faults detected"
    return f"{found}; {score['true_alarms']} of {findings} findings are true alarms{shown}"
