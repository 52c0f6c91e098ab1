"""True and rebuilt work of a few ranks in a few steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from llmprism.page.activity import of_pipelines, waiting
from prism_common.kinds import AXES, COMPUTE, DP, PP
from prism_common.quantities import percent
from prism_sim.render import look, paint
from prism_sim.run_folder import Run
from prism_sim.score import read_score
from prism_sim.score.busy import WORK, true_work
from prism_sim.score.load import Case

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Timeline of some ranks"
CAPTION = (
    "Two lines a rank: above what it really did, below what was rebuilt from flow records. "
    "Computation fills a line, traffic lies in its lower "
    "half, and waiting is empty; without a pipeline, rebuilt waiting looks like computation. "
    "Vertical marks are the ends of steps. True traffic counts from when it can move, both ends "
    "being ready. Shown are stages of one pipeline (or replicas, without one), around the start of "
    "the first fault, if any."
)
OWN_CAPTION = (
    "The work of each NIC as it was rebuilt from flow records. Computation fills a line, traffic "
    "lies in its lower half, and waiting is empty; without a pipeline, waiting looks like "
    "computation. Vertical marks are the ends of steps."
)

_RANKS = 4
_STEPS = 2


@dataclass(frozen=True)
class _View:
    """The shown part: rows of ``ranks``, and an interval of time [ns]."""

    ranks: pd.DataFrame
    start_ns: int
    end_ns: int


@paint.styled
def draw(run: Run) -> Figure:
    """True and rebuilt lines of up to four ranks over two steps, time in ms from their start."""
    steps = look.truth(run, "steps")
    inferred = look.diagnosis(run, "steps")
    if not len(steps) and not len(inferred):
        return paint.sentence("No timeline: neither truth nor diagnosis has steps.")
    view = _choose(run, steps) if len(steps) else _choose_inferred(inferred)
    known = len(steps) > 0
    lines = 2 if known else 1
    made = paint.figure(11, 1.5 + 0.42 * lines * len(view.ranks))
    axes = made.subplots()
    if known:
        _draw_truth(axes, run, view)
    _draw_rebuilt(axes, run, view, above=1 if known else 0, lines=lines)
    _label(axes, view, lines)
    made.legend(handles=_entries(known=known), loc="outside lower left", ncols=9)
    paint.title(made, _finding(run, view))
    return made


def _choose(run: Run, steps: pd.DataFrame) -> _View:
    """The pipeline of the first fault, or the largest job's first, and two steps there."""
    ranks = look.truth(run, "ranks").fillna({"dp": 0, "pp": 0, "tp": 0, "ep": 0, "cp": 0})
    faults = look.truth(run, "faults").dropna(subset=["start_ns"]).sort_values("start_ns")
    hit = faults[faults["job"].isin(ranks["job"])].head(1)
    by_size = ranks.groupby("job").agg(stages=("pp", "max"), size=("rank", "size"))
    job = hit["job"].iloc[0] if len(hit) else by_size.sort_values(["stages", "size"]).index[-1]
    mine = ranks[ranks["job"] == job].sort_values(["tp", "ep", "cp", "dp", "pp"])
    affected = mine[mine["rank"] == hit["rank"].iloc[0]] if len(hit) else mine.iloc[:0]
    lead = (affected if len(affected) else mine).iloc[0]
    axis = "pp" if mine["pp"].max() > 0 else "dp"
    others = [name for name in AXES if name != axis]
    line = mine[(mine[others] == lead[others]).all(axis=1)].sort_values(axis)
    return _View(_spaced(line, lead), *_window(steps[steps["job"] == job], hit))


def _spaced(line: pd.DataFrame, lead: pd.Series) -> pd.DataFrame:
    """At most a few ranks of the line, first and last and the leading one among them."""
    picks = np.unique(np.linspace(0, len(line) - 1, min(_RANKS, len(line))).round().astype(int))
    place = int(np.flatnonzero(line["rank"] == lead["rank"])[0])
    if place not in picks:
        inner = picks[1:-1] if len(picks) > 2 else picks
        picks[picks == inner[np.argmin(np.abs(inner - place))]] = place
    return line.iloc[np.sort(picks)]


def _window(steps: pd.DataFrame, hit: pd.DataFrame) -> tuple[int, int]:
    borders = steps.groupby("step").agg(start=("start_ns", "min"), end=("end_ns", "max"))
    place = min(1, len(borders) - 1)
    if len(hit):
        first, start = hit[["from_step", "start_ns"]].iloc[0]
        onset = int(np.searchsorted(borders["end"].to_numpy(), start, "right"))
        onset = onset if pd.isna(first) else int(np.searchsorted(borders.index, first))
        place = min(max(onset - 1, 0), max(len(borders) - _STEPS, 0))
    last = min(place + _STEPS, len(borders)) - 1
    start, end = (borders[name].to_numpy(np.int64) for name in ("start", "end"))
    if last > place and start[last] - end[place] > np.median(end - start):
        place, last = max(place - 1, 0), place  # the job stood still after the step
    return int(borders["start"].iloc[place]), int(borders["end"].iloc[last])


def _choose_inferred(inferred: pd.DataFrame) -> _View:
    """Without truth: the first addresses of the largest job, and two steps in the middle."""
    job = inferred.groupby("job")["address"].nunique().idxmax()
    mine = inferred[inferred["job"] == job]
    addresses = sorted(mine["address"].unique())[:_RANKS]
    one = mine[mine["address"] == addresses[0]].sort_values("start_ns")
    middle = max(0, len(one) // 2 - 1)
    part = one.iloc[middle : middle + _STEPS]
    shown = pd.DataFrame({"job": job, "rank": pd.NA, "address": addresses, "pp": pd.NA})
    return _View(shown, int(part["start_ns"].min()), int(part["end_ns"].max()))


def _draw_truth(axes: Axes, run: Run, view: _View) -> None:
    job = view.ranks["job"].iloc[0]
    steps = look.truth(run, "steps", [("job", "==", job)])
    near = (steps["end_ns"] > view.start_ns) & (steps["start_ns"] < view.end_ns)
    shown = [int(step) for step in steps.loc[near, "step"].unique()]
    # all ranks, for the partners of those shown say when a message can move
    spans = look.truth(run, "spans", [("job", "==", job), ("step", "in", shown)])
    ranks = look.truth(run, "ranks")
    work = true_work(Case({"ranks": ranks, "spans": spans}, {}, {}, {}))
    for row, rank in enumerate(view.ranks.itertuples()):
        own = spans[spans["rank"] == rank.rank]
        for kind in WORK["compute"]:
            _bars(axes, own[own["kind"] == kind], view, 2 * row, kind)
        line = int(np.flatnonzero((ranks["job"] == job) & (ranks["rank"] == rank.rank))[0])
        for kind in (PP, DP):
            _bars(axes, work[kind][work[kind]["rank_row"] == line], view, 2 * row, kind)
        ends = steps.loc[steps["rank"] == rank.rank, "end_ns"]
        _marks(axes, ends, view, 2 * row, paint.INK)


def _draw_rebuilt(axes: Axes, run: Run, view: _View, above: int, lines: int) -> None:
    at: look.Where = [("address", "in", view.ranks["address"].tolist())]
    spans, steps = _rebuilt_spans(run, at), look.diagnosis(run, "steps", at)
    for row, rank in enumerate(view.ranks.itertuples()):
        own = spans[spans["address"] == rank.address]
        for kind in (COMPUTE, *paint.KINDS):
            _bars(axes, own[own["kind"] == kind], view, lines * row + above, kind)
        ends = steps.loc[steps["address"] == rank.address, "end_ns"]
        _marks(axes, ends, view, lines * row + above, paint.REBUILT)


def _rebuilt_spans(run: Run, at: look.Where) -> pd.DataFrame:
    """The spans of the jobs of some addresses; ranks of one group show that others wait for it."""
    own: look.Where = [("job", "in", look.diagnosis(run, "jobs", at)["job"].unique().tolist())]
    spans, steps, groups, pairs = (
        look.diagnosis(run, name, own) for name in ("spans", "steps", "groups", "pairs")
    )
    senders = pairs.loc[pairs["kind"] == PP, "src"].unique().tolist()
    if not senders:
        return spans
    sent = look.flows(run, ["start_ns", "end_ns", "src", "dst", "bytes"], [("src", "in", senders)])
    return waiting(spans, steps, groups, of_pipelines(pairs, sent))


def _bars(axes: Axes, spans: pd.DataFrame, view: _View, line: int, kind: str) -> None:
    start = np.maximum(spans["start_ns"].to_numpy(np.int64), view.start_ns)
    end = np.minimum(spans["end_ns"].to_numpy(np.int64), view.end_ns)
    shown = end > start
    bars = np.stack([start - view.start_ns, end - start], axis=1)[shown] / 1e6
    full = kind in ("compute", *WORK["compute"])
    colour = paint.WORK.get(kind, paint.KINDS.get(kind, paint.WORK["compute"]))
    box = (line - 0.36, 0.72) if full else (line, 0.36)
    edge = {"edgecolor": paint.PAPER, "linewidth": 0.3} if full else {"linewidth": 0}
    axes.broken_barh(bars, box, facecolor=colour, rasterized=len(bars) > 2000, **edge)


def _marks(axes: Axes, times: pd.Series, view: _View, line: int, colour: str) -> None:
    span = view.end_ns - view.start_ns
    near = times[(times > view.start_ns) & (times <= view.end_ns + span // 100)]
    x = (near.to_numpy(np.int64) - view.start_ns) / 1e6
    axes.vlines(x, line - 0.48, line + 0.48, color=colour, linewidth=1.6)


def _label(axes: Axes, view: _View, lines: int) -> None:
    names = []
    for rank in view.ranks.itertuples():
        if lines == 2:
            names.append(f"rank {rank.rank}, stage {rank.pp:.0f}   true")
        names.append(f"{rank.address}   rebuilt")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    for row in range(1, len(view.ranks)):
        axes.axhline(lines * row - 0.5, color=paint.GRID, linewidth=0.7, zorder=0)
    axes.set_xlim(0, (view.end_ns - view.start_ns) / 1e6 * 1.004)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("time in these steps [ms]")


def _entries(*, known: bool) -> list[object]:
    from matplotlib.lines import Line2D

    parts = [("fwd", "forward"), ("bwd", "backward"), ("opt", "optimizer")] if known else []
    parts += [
        ("compute", "computation, rebuilt"),
        ("pp", "pipeline (PP)"),
        ("dp", "data-parallel (DP)"),
    ]
    ends = [(paint.INK, "step ends")] if known else []
    ends.append((paint.REBUILT, "step ends, rebuilt"))
    swatches: list[object] = [paint.swatch(paint.WORK[kind], label) for kind, label in parts]
    return swatches + [Line2D([], [], color=c, linewidth=1.6, label=label) for c, label in ends]


def _finding(run: Run, view: _View) -> str:
    job = view.ranks["job"].iloc[0]
    score = read_score(run)
    name = paint.job_heading(str(job))
    figures = score.timeline.per_job.get(job) if score else None
    if figures is None:
        return f"{name}: the timeline of {len(view.ranks)} NICs as rebuilt from flows"
    covered = percent(figures.coverage)
    if figures.step_error.mean is None:
        return f"{name}: no step of the truth was matched"
    error = percent(figures.step_error.mean, 2)
    return f"{name}: {covered} of steps rebuilt, their durations off by {error} on average"
