"""Write the page ``paper.md``: a section for each experiment, then a list of open differences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prism_common.files import replacing
from reproduction import pages
from reproduction.base import OTHER_METHOD
from reproduction.running import Results

PAGE = "paper.md"

SEEDS = 5
"""Number of seeds without ``--seeds``."""


def write_page(results: Sequence[Results], seeds: Sequence[int], reduced: bool, page: Path) -> None:
    """Write the page; its folder is made if it does not exist."""
    sections = [
        {
            "title": one.experiment.title,
            "text": one.experiment.section(one.done) if one.done else "Nothing finished.\n",
            "failed": one.failed,
        }
        for one in results
    ]
    text = pages.text(
        "page",
        seeds=list(seeds),
        usual=SEEDS,
        minutes=sum(one.cpu_seconds for one in results) / 60,
        reduced=reduced,
        other=OTHER_METHOD,
        sections=sections,
        gaps=[gap for one in results if one.done for gap in one.experiment.gaps(one.done)],
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    with replacing(page) as partial:
        partial.write_text(text, encoding="utf-8")
