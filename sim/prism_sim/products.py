"""Files that each stage of a run writes into the run's folder, and their removal.

A stage that is repeated makes its own earlier products and those of all later stages
obsolete. They are removed before it starts, so that a folder never holds a score of one
diagnosis beside another. Nothing else in the folder is touched.
"""

from __future__ import annotations

from pathlib import Path

PRODUCTS: dict[str, tuple[str, ...]] = {
    "simulate": ("flows.parquet", "topology.json", "manifest.json", "truth/*.parquet"),
    "diagnose": ("diagnosis/*.parquet", "diagnosis/*.json"),
    "score": ("score.json",),
    "report": ("trace.json", "report.html", "figures/*"),
}
"""What each stage writes into a run folder, stages in their order."""

_HALF_WRITTEN = (".*.partial", "*/.*.partial")


def clear(folder: Path, stage: str) -> None:
    """Remove the products of ``stage`` and of every later one from a run folder."""
    names = [*PRODUCTS]
    later = [pattern for name in names[names.index(stage) :] for pattern in PRODUCTS[name]]
    for pattern in (*later, *_HALF_WRITTEN):
        for path in folder.glob(pattern):
            path.unlink()
