"""Curves of the study of findings: how many faults are found and named, over the slowdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fault_figures import Row, at_slowdowns, job_size, share, size_or_name
from prism_sim.render import paint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 5
APART = 0.08  # of the distance of two slowdowns: from one curve to the other
CURVES: dict[str, tuple[str, str, str]] = {
    "found": ("detected", paint.INK, "o"),
    "culprit first": ("first", paint.WRONG, "s"),
}


@paint.styled
def draw_responses(rows: Sequence[Row]) -> Figure:
    """Draw a panel for each kind of fault, telemetry and size of job."""
    panels = list(_panels([row for row in rows if row["injected"]]))
    lines = -(-len(panels) // COLUMNS)
    made = paint.figure(15, 0.9 + 2.1 * lines)
    every = made.subplots(lines, COLUMNS, squeeze=False, sharey=True).ravel()
    for axes, (name, own) in zip(every, panels, strict=False):
        _panel(axes, own)
        axes.set_title(name)
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    for axes in every[::COLUMNS]:
        axes.set_ylabel("share of faults [%]")
    every[0].legend(loc="lower right")
    paint.title(made, "Faults that are found, by how much slower they make their job")
    return made


def _panels(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Names and faults of the panels; only of faults whose job goes on."""
    groups: tuple[Callable[[Row], str], ...] = (
        lambda row: str(row["kind"]), lambda row: f"telemetry: {row['telemetry']}", job_size,
    )  # fmt: skip
    for group in groups:
        for name in sorted({group(row) for row in rows}, key=size_or_name):
            own = [row for row in rows if group(row) == name]
            if any(part for _, part in at_slowdowns(own)):
                yield name, own


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    slowdowns = list(at_slowdowns(rows))
    for offset, (label, (name, colour, marker)) in enumerate(CURVES.items()):
        drawn = [(at, share(own, lambda row, key=name: row[key]))
                 for at, (_, own) in enumerate(slowdowns) if own]  # fmt: skip
        at = np.array([place for place, _ in drawn]) + APART * (2 * offset - 1)
        middle, low, high = (
            100 * np.array([one[key] for _, one in drawn]) for key in ("share", "low", "high")
        )
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4, "label": label}
        axes.errorbar(at, middle, np.array([middle - low, high - middle]).clip(0), linewidth=1.2,
                      elinewidth=0.7, **style)  # fmt: skip
    names = [label.replace(" and more", "+").replace(" to ", "\N{EN DASH}")
             for label, _ in slowdowns]  # fmt: skip
    counts = [str(len(own)) for _, own in slowdowns]
    axes.set_xticks(range(len(names)), [f"{n}\n({c})" for n, c in zip(names, counts, strict=True)])
    axes.tick_params("x", labelsize=6)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(-5, 105)
