"""The look and the order of the gallery: pictures in the style of the reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ORDER = ("plot_slow_server", "plot_slow_nic", "plot_crash", "plot_healthy", "plot_campaign")
"""Examples that come first in their section; the others follow by name."""


def gallery_look(_settings: dict[str, Any], _name: str) -> None:
    """Give every example the style of the reports."""
    import matplotlib as mpl

    from prism_sim.render.paint import RULES

    mpl.rcParams.update(
        {**RULES, "figure.figsize": (8, 3.4), "figure.constrained_layout.use": True}
    )


def gallery_order(name: str) -> tuple[int, str]:
    """Where an example stands in its section."""
    stem = Path(name).stem
    return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)
