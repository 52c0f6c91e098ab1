"""The cluster as the collector sees it, and as job recognition colours it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prism_sim.render import look, paint
from prism_sim.run_folder import Run
from prism_sim.score.jobs import members, overlaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Cluster map"
CAPTION = (
    "One column a server, one cell a NIC. Left: bytes that each NIC sent and received, all the "
    "collector knows. Right: the jobs that were recognised. A cross marks a NIC put into the "
    "wrong job, or left out of one."
)
OWN_CAPTION = (
    "One column a server, one cell a NIC. Left: bytes that each NIC sent and received, all the "
    "collector knows. Right: the jobs that were recognised."
)

_ROOM = 14  # columns up to which all servers stand in one row
_NAMED = 12  # jobs in the legend
_AIRY = 1500  # cells up to which each is a shape of its own

Grid = npt.NDArray[np.float64]


@paint.styled
def draw(run: Run) -> Figure:
    """Two maps of all NICs of ``topology.json``: traffic, and recognised jobs."""
    endpoints = look.json_of(run, "topology").get("endpoints", [])
    if not endpoints:
        return paint.sentence("No cluster map: the run has no topology.")
    cells = _Cells(endpoints)
    cell = min(0.42, 5.0 / cells.columns, 7.0 / cells.rows)
    jobs = look.diagnosis(run, "jobs")["job"].nunique()
    key = 0.42 + 0.19 * -(-min(jobs + 2, _NAMED + 3) // 2)
    made = paint.figure(11, cell * cells.rows + 1.1 + key)
    grid = made.add_gridspec(2, 2, height_ratios=[cell * cells.rows + 0.4, key])
    maps = [made.add_subplot(grid[0, side], anchor="NW") for side in (0, 1)]
    keys = [made.add_subplot(grid[1, side]) for side in (0, 1)]
    for axes in keys:
        axes.set_axis_off()
    _draw_traffic(maps[0], keys[0], cells, run)
    paint.title(made, _draw_jobs(maps[1], keys[1], cells, run))
    return made


class _Cells:
    """Places of the NICs: servers from left to right in bands, NICs from top to bottom."""

    def __init__(self, endpoints: list[dict[str, Any]]) -> None:
        names = [str(end.get("server")) for end in endpoints]
        self.servers = list(dict.fromkeys(names))
        place = {name: n for n, name in enumerate(self.servers)}
        order: Counter[str] = Counter()
        slots = []
        for name in names:
            slots.append(order[name])
            order[name] += 1
        self.deep = max(slots) + 1
        ideal = int(np.ceil(np.sqrt(len(self.servers) * (self.deep + 1) / 0.8)))
        self.columns = min(len(self.servers), max(16, ideal))
        self.bands = -(-len(self.servers) // self.columns)
        self.rows = self.bands * (self.deep + 1) - 1
        server = np.array([place[name] for name in names])
        self.x = server % self.columns
        self.y = server // self.columns * (self.deep + 1) + np.array(slots)
        self.addresses = [str(end["address"]) for end in endpoints]

    def grid(self, values: npt.NDArray[Any]) -> Grid:
        """``values`` of the NICs laid out in cells; NaN where there is no NIC."""
        cells = np.full((self.rows, self.columns), np.nan)
        cells[self.y, self.x] = values
        return cells

    def frame(self, axes: Axes) -> None:
        """Label the bands with the servers they begin with."""
        paint.quiet(axes)
        first = [self.servers[band * self.columns] for band in range(self.bands)]
        middle = np.arange(self.bands) * (self.deep + 1) + (self.deep - 1) / 2
        axes.set_yticks(middle, first)
        axes.set_xticks([])
        if self.columns <= _ROOM and self.bands == 1:
            axes.set_xticks(range(self.columns), self.servers)
            axes.set_yticks([])
        elif self.bands == 1:
            axes.set_xlabel(f"servers {self.servers[0]} to {self.servers[-1]}, one a column")
            axes.set_yticks([0, self.deep - 1], ["NIC 0", f"NIC {self.deep - 1}"])
        else:
            axes.set_xlabel(f"{self.columns} servers a row, from the one named on; one a column")


def _draw_traffic(axes: Axes, key: Axes, cells: _Cells, run: Run) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

    flows = look.flows(run, ["src", "dst", "bytes"])
    sizes = pd.Series(0.0, index=pd.Index(cells.addresses))
    for end in ("src", "dst"):
        total = flows.groupby(end, observed=True)["bytes"].sum()
        sizes = sizes.add(total.rename(str).reindex(sizes.index).fillna(0.0))
    busy = cells.grid(sizes.where(sizes > 0).to_numpy())
    _mesh(axes, cells, cells.grid(sizes.where(sizes == 0).to_numpy()), cmap=_one(paint.GRID))
    busy_nics = int((sizes > 0).sum())
    axes.set_title(f"Before: {busy_nics} of {len(sizes)} NICs have traffic")
    if busy_nics:
        image = _mesh(axes, cells, busy, cmap=_depth(), norm=_norm(sizes[sizes > 0]))
        place = key.inset_axes((0.0, 0.75, 0.62, 0.1))
        bar = axes.figure.colorbar(image, cax=place, orientation="horizontal")
        wide = isinstance(image.norm, LogNorm)
        bar.ax.xaxis.set_major_locator(LogLocator(numticks=4) if wide else MaxNLocator(4))
        bar.ax.xaxis.set_major_formatter(EngFormatter("B"))
        bar.ax.xaxis.set_minor_formatter(NullFormatter())
        bar.set_label("sent and received")
        bar.outline.set_visible(False)
    cells.frame(axes)


def _draw_jobs(axes: Axes, key: Axes, cells: _Cells, run: Run) -> str:
    """Colour the NICs by recognised job; the sentence that says how right that is."""
    from matplotlib.colors import ListedColormap

    found = look.diagnosis(run, "jobs")
    jobs = sorted(found["job"].unique())
    colours = paint.job_colours(jobs)
    number = {job: n for n, job in enumerate(jobs)}
    job_of = dict(zip(found["address"], found["job"], strict=True))
    codes = np.array([number.get(job_of.get(a, ""), np.nan) for a in cells.addresses])
    _mesh(axes, cells, cells.grid(np.where(np.isnan(codes), 0.0, np.nan)), cmap=_one(paint.GRID))
    if jobs:
        palette = ListedColormap([colours[job] for job in jobs])
        _mesh(axes, cells, cells.grid(codes), cmap=palette, vmin=-0.5, vmax=len(jobs) - 0.5)
    sizes = found["job"].value_counts()
    entries = [
        paint.swatch(colours[job], f"{job}: {sizes[job]} NICs")
        for job in sorted(jobs, key=lambda job: -sizes[job])[:_NAMED]
    ]
    if len(jobs) > _NAMED:
        entries.append(paint.swatch("none", f"and {len(jobs) - _NAMED} more"))
    entries.append(paint.swatch(paint.GRID, "no job"))
    summary = _mark_errors(axes, cells, run, found, entries)
    key.legend(handles=entries, loc="upper left", ncols=2, borderaxespad=0)
    axes.set_title(f"After: {len(jobs)} {'job' if len(jobs) == 1 else 'jobs'} recognised")
    cells.frame(axes)
    return summary


def _mark_errors(
    axes: Axes, cells: _Cells, run: Run, found: pd.DataFrame, entries: list[Any]
) -> str:
    """Cross out NICs in a wrong job or missing from theirs; say how many jobs are exact."""
    count = found["job"].nunique()
    ranks = look.truth(run, "ranks")
    if not len(ranks):
        return f"Recognition found {count} {'job' if count == 1 else 'jobs'} in the flows"
    true, inferred = members(ranks), members(found)
    best = overlaps(true, inferred).drop_duplicates("found")
    stands_for = dict(zip(best["found"], best["true"], strict=True))
    claimed = {(address, stands_for.get(job)) for job, part in inferred.items() for address in part}
    real = {(address, job) for job, part in true.items() for address in part}
    wrong = {address for address, _ in claimed ^ real}
    hit = np.array([address in wrong for address in cells.addresses])
    if hit.any():
        marks = axes.scatter(
            cells.x[hit], cells.y[hit], marker="x", s=22, color=paint.INK, linewidths=1.2
        )
        marks.set_label(f"wrong: {int(hit.sum())} NICs")
        entries.append(marks)
    exact = sum((Counter(true.values()) & Counter(inferred.values())).values())
    return f"{exact} of {len(true)} jobs recognised exactly, {count} found"


def _norm(sizes: pd.Series) -> Any:
    """From nothing to the most, or by orders of magnitude where there are several of them."""
    from matplotlib.colors import LogNorm, Normalize

    low, high = float(sizes.min()), float(sizes.max())
    return LogNorm(low, high) if high > 100 * low else Normalize(0, high)


def _depth() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("depth", ["#d3e5f5", "#6aaed6", "#08447f"])


def _mesh(axes: Axes, cells: _Cells, values: Grid, **how: Any) -> Any:
    """Coloured cells with a little air between them, or one image where they are many."""
    masked = np.ma.masked_invalid(values)
    if values.size > _AIRY:
        return axes.imshow(masked, aspect="equal", interpolation="nearest", **how)
    axes.set_aspect("equal")
    edges = [np.arange(n + 1) - 0.5 for n in (cells.columns, cells.rows)]
    mesh = axes.pcolormesh(*edges, masked, edgecolor=paint.PAPER, linewidth=1.0, **how)
    axes.set_ylim(cells.rows - 0.5, -0.5)
    return mesh


def _one(colour: str) -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap([colour])
