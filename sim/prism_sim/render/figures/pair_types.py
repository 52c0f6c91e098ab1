"""True and inferred kinds of all pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from prism_common.kinds import OTHER, UNKNOWN
from prism_common.quantities import percent
from prism_sim.render import look, paint
from prism_sim.run_folder import Run
from prism_sim.score import read_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Pair types"
CAPTION = (
    "Each dot is a pair of NICs that exchange traffic, row to column, coloured by what the traffic "
    "is for: as it is, and as it was inferred. Where two NICs exchange "
    "training traffic and other traffic, the dot shows that of training. NICs stand in the order "
    "of jobs, and of their pipeline stages and replicas, so that DP rings lie "
    "along the diagonal and pipelines beside it. The tables count all pairs of the run."
)
OWN_CAPTION = (
    "Each dot is a pair of NICs that exchange traffic, row to column, coloured by what the traffic "
    "is for, as it was inferred. Where two NICs exchange training traffic and other traffic, the "
    "dot shows that of training. NICs stand in the order of jobs. The table counts all pairs."
)

_SHOWN = 64  # addresses along an axis; more would be smaller than a dot


@paint.styled
def draw(run: Run) -> Figure:
    """Adjacency of NICs by kind of pair, and the confusion of true and inferred kinds."""
    true, inferred = look.truth(run, "pairs"), look.diagnosis(run, "pairs")
    if not len(true) and not len(inferred):
        return paint.sentence("No pair types: neither truth nor diagnosis has pairs.")
    panels = [("True", true, "kind")] if len(true) else []
    panels.append(("Inferred", inferred, "kind"))
    tables = _tables(run, inferred)
    made = paint.figure(3.9 * len(panels) + 3.2, 4.3)
    grid = made.add_gridspec(len(tables), len(panels) + 1, width_ratios=[3.7] * len(panels) + [3])
    order = _order(run, true, inferred)
    for place, (name, pairs, column) in enumerate(panels):
        _adjacency(made.add_subplot(grid[:, place]), pairs, column, order, f"{name} pairs")
    for row, (name, counts) in enumerate(tables.items()):
        _table(made.add_subplot(grid[row, -1]), counts, name)
    kinds = sorted(
        {*true["kind"].dropna(), *inferred["kind"].dropna()}, key=list(paint.KINDS).index
    )
    made.legend(
        handles=[paint.swatch(paint.KINDS[kind], kind) for kind in kinds],
        loc="outside lower left",
        ncols=len(kinds) + 1,
        title=_extent(run, order),
        alignment="left",
    )
    paint.title(made, _finding(run, inferred))
    return made


def _order(run: Run, true: pd.DataFrame, inferred: pd.DataFrame) -> pd.Series:
    """Job by address, in the order in which the addresses stand along the axes."""
    ranks = look.truth(run, "ranks")
    if not len(ranks):
        pairs = inferred if len(inferred) else true
        ends = [pairs[["job", end]].set_axis(["job", "address"], axis=1) for end in ("src", "dst")]
        ranks = pd.concat(ends).sort_values(["job", "address"]).assign(dp=0, pp=0, tp=0)
    part = ranks.fillna({"dp": 0, "pp": 0, "tp": 0}).drop_duplicates(["job", "address"])
    if len(part) > _SHOWN:
        part = part[part["tp"] == 0]
        part = part[part["job"].isin(_fitting(part["job"].value_counts()))]
    if len(part) > _SHOWN:
        part = part[part["dp"] < max(1, _SHOWN // part["pp"].nunique())]
    part = part.head(_SHOWN).sort_values(["job", "tp", "pp", "dp"], kind="stable")
    return part.drop_duplicates("address").set_index("address")["job"].astype(str)


def _fitting(sizes: pd.Series) -> list[str]:
    """The largest job, and those after it that still find room."""
    jobs: list[str] = []
    room = _SHOWN
    for job, size in sizes.sort_index().sort_values(ascending=False, kind="stable").items():
        if size <= room or not jobs:
            jobs.append(str(job))
            room -= int(size)
    return jobs


def _extent(run: Run, order: pd.Series) -> str | None:
    """Text about the NICs that are shown, if not all are."""
    total = look.truth(run, "ranks")["address"].nunique()
    if len(order) >= total:
        return None
    return f"shown: {len(order)} of {total} NICs, those of the first tensor rank of some jobs"


def _adjacency(
    axes: Axes, pairs: pd.DataFrame, column: str, order: pd.Series, heading: str
) -> None:
    places = order.index
    source = places.get_indexer(pd.Index(pairs["src"].astype(str)))
    target = places.get_indexer(pd.Index(pairs["dst"].astype(str)))
    shown = np.flatnonzero((source >= 0) & (target >= 0))
    kinds = pairs[column].fillna(UNKNOWN).to_numpy()
    shown = shown[np.argsort(~np.isin(kinds[shown], (OTHER, UNKNOWN)), kind="stable")]
    kinds = kinds[shown]  # dots that are drawn later hide earlier ones
    size = min((3.1 * 72 / max(len(order), 8)) ** 2 * 0.72, 120)
    colours = [paint.KINDS.get(kind, paint.MUTED) for kind in kinds]
    axes.scatter(target[shown], source[shown], c=colours, marker="s", s=size, linewidths=0)
    axes.plot([-0.5, len(order) - 0.5], [-0.5, len(order) - 0.5], color=paint.GRID, zorder=0)
    axes.set(xlim=(-0.7, len(order) - 0.3), ylim=(len(order) - 0.3, -0.7), aspect="equal")
    axes.set_xlabel("receiving NIC")
    axes.set_ylabel("sending NIC")
    _mark_jobs(axes, order)
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(paint.GRID)
    axes.set_title(heading if shown.size else f"{heading}: none")


def _mark_jobs(axes: Axes, order: pd.Series) -> None:
    """Name the jobs along the edges, and draw a line between them."""
    names = list(dict.fromkeys(order))
    size = order.value_counts()
    ends = np.cumsum([size[name] for name in names])
    for border in ends[:-1] - 0.5:
        axes.axhline(border, color=paint.GRID, linewidth=0.8, zorder=0)
        axes.axvline(border, color=paint.GRID, linewidth=0.8, zorder=0)
    middle = [end - size[name] / 2 - 0.5 for name, end in zip(names, ends, strict=True)]
    short = [name if len(name) <= 12 else f"{name[:11]}…" for name in names]
    crowded = len(names) > 8
    axes.set_yticks([] if crowded else middle, [] if crowded else short, rotation=90, va="center")
    axes.set_xticks([])
    axes.tick_params(length=0)


def _tables(run: Run, inferred: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Counts true x inferred of each stage of the method; inferred only, if nothing is known.

    A method that does not refine its kinds has one table.
    """
    columns = {"After refinement": "kind", "Before refinement": "kind_unrefined"}
    if not _is_refined(inferred):
        columns = {"All pairs": "kind"}
    score = read_score(run)
    if score is not None and score.pairs.total:
        known = {"kind": score.pairs.confusion, "kind_unrefined": score.pairs.confusion_unrefined}
        return {name: pd.DataFrame(known[key]).T.fillna(0) for name, key in columns.items()}
    counts = {name: inferred[column].value_counts() for name, column in columns.items()}
    return {name: part.to_frame("pairs").T for name, part in counts.items()}


def _is_refined(inferred: pd.DataFrame) -> bool:
    """Whether any pair had another kind before the method refined it."""
    kinds = (inferred[name].astype(object) for name in ("kind", "kind_unrefined"))
    return not next(kinds).equals(next(kinds))


def _table(axes: Axes, counts: pd.DataFrame, name: str) -> None:
    """Write the counts into cells shaded by their share of the row."""
    import seaborn as sns

    paint.quiet(axes)
    kinds = list(paint.KINDS)
    judged = list(counts.index) != ["pairs"]
    columns = {*counts.columns, *(counts.index if judged else ())}
    counts = counts.reindex(
        index=sorted(counts.index, key=lambda kind: _place(kinds, kind)),
        columns=sorted(columns, key=lambda kind: _place(kinds, kind)),
        fill_value=0,
    )
    axes.set_title(name if counts.size else f"{name}: no pairs")
    if not counts.size:
        axes.set(xticks=[], yticks=[])
        return
    total = np.maximum(counts.to_numpy(float).sum(1, keepdims=True), 1)
    share = counts.to_numpy(float) / total
    right = np.equal.outer(counts.index.to_numpy(object), counts.columns.to_numpy(object))
    for part, colour in ((right | (not judged), paint.REBUILT), (~right & judged, paint.WRONG)):
        how: dict[str, Any] = {"cmap": _fading(colour), "vmin": 0, "vmax": 1, "cbar": False}
        sns.heatmap(share, mask=~part, ax=axes, **how)
    for (row, column), value in np.ndenumerate(counts.to_numpy(int)):
        ink = "white" if share[row, column] > 0.55 else paint.INK
        axes.text(column + 0.5, row + 0.5, f"{value:,}", ha="center", va="center", color=ink)
    axes.set_xticks(np.arange(counts.shape[1]) + 0.5, counts.columns, rotation=0)
    axes.set_yticks(np.arange(counts.shape[0]) + 0.5, counts.index, rotation=0)
    axes.set_xlabel("inferred")
    if judged:
        axes.set_ylabel("true")


def _place(kinds: list[str], kind: str) -> int:
    return kinds.index(kind) if kind in kinds else len(kinds)


def _fading(colour: str) -> Any:
    """From nothing, whatever the paper's colour, to ``colour``."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    strong = to_rgba(colour)
    return LinearSegmentedColormap.from_list("fading", [(*strong[:3], 0.0), strong])


def _finding(run: Run, inferred: pd.DataFrame) -> str:
    score = read_score(run)
    if score is None or not score.pairs.total:
        return f"{len(inferred)} communicating pairs, kinds inferred from flows alone"
    pairs = score.pairs
    refined, raw = percent(pairs.accuracy), percent(pairs.accuracy_unrefined)
    extra = f"; {pairs.spurious:,} more are not in the truth" if pairs.spurious else ""
    before = f" ({raw} before refinement)" if _is_refined(inferred) else ""
    return f"{refined} of {pairs.total:,} pairs have the right kind{before}{extra}"
