"""Write the page ``paper.md``: a section for each experiment, then a list of open differences."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prism_common.files import replacing
from prism_sim.toolkit import paint
from reproduction import pages
from reproduction.base import OTHER_METHOD, PageFigure
from reproduction.running import Results

PAGE = "paper.md"

SEEDS = 5
"""Number of seeds without ``--seeds``."""


def write_page(
    results: Sequence[Results], seeds: Sequence[int], reduced: bool, page: Path, images: Path
) -> list[Path]:
    """Write the page and its pictures; return their paths, the page first."""
    figures = {r.experiment.name: r.experiment.pictures(r.done) for r in results if r.done}
    images.mkdir(parents=True, exist_ok=True)
    files = {f.name: images / f"paper-{f.name}.png" for many in figures.values() for f in many}
    for figure in (figure for many in figures.values() for figure in many):
        paint.write_png(figure.figure, files[figure.name])
    to_images = Path(os.path.relpath(images.resolve(), page.parent.resolve()))
    text = pages.text(
        "page",
        seeds=list(seeds),
        usual=SEEDS,
        minutes=sum(one.cpu_seconds for one in results) / 60,
        reduced=reduced,
        other=OTHER_METHOD,
        sections=[
            _section(one, figures.get(one.experiment.name, []), to_images) for one in results
        ],
        gaps=[gap for one in results if one.done for gap in one.experiment.gaps(one.done)],
    )
    with replacing(page) as partial:
        partial.write_text(text, encoding="utf-8")
    return [page, *files.values()]


def _section(results: Results, figures: Sequence[PageFigure], images: Path) -> dict[str, Any]:
    done = results.done
    return {
        "title": results.experiment.title,
        "text": results.experiment.section(done) if done else "Nothing finished.\n",
        "pictures": [
            {"caption": one.caption, "file": (images / f"paper-{one.name}.png").as_posix()}
            for one in figures
        ],
        "failed": results.failed,
    }
