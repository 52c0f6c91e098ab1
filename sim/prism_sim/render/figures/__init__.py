"""The figures of a run: each a file here, each a pure function of the saved run.

A further figure is one file with a ``draw(run)`` and one line in :data:`FIGURES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prism_sim.render.figures import (
    cluster_map,
    pair_types,
    step_durations,
    switch_bandwidth,
    timeline,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from prism_sim.run_folder import Run


@dataclass(frozen=True)
class ReportFigure:
    """One figure of the registry.

    Attributes
    ----------
    title : its heading on the page.
    caption : how to read it, in a sentence or two.
    own_caption : the same for records of one's own, whose truth nobody knows.
    draw : draws it from a saved run; missing data is not an error, but named in the figure.
    """

    title: str
    caption: str
    own_caption: str
    draw: Callable[[Run], Figure]


FIGURES: dict[str, ReportFigure] = {
    module.__name__.rpartition(".")[2]: ReportFigure(
        module.TITLE, module.CAPTION, module.OWN_CAPTION, module.draw
    )
    for module in (cluster_map, pair_types, timeline, step_durations, switch_bandwidth)
}
"""Every figure by name, in the order of the report."""

__all__ = ["FIGURES", "ReportFigure"]
