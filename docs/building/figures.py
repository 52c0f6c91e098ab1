"""Figures that stand in several pages, from the one file that has them.

``results/reference/exam.json`` has the figures of both methods. A page of the site has them by the
marker ``made: figures exam``. The README, which nobody builds, has them between the marks
``figures: exam`` and ``/figures``: ``python -m docs.building.figures`` writes them there again,
and a test compares.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from evaluation.exam.page import written
from prism_common.files import replacing
from prism_sim.render.markdown import table

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- /figures -->)", re.DOTALL)
_SHOWN = {
    "findings": (
        ("recall", "due faults that are found"),
        ("culprit first", "culprit named first"),
        ("right server, or in the set", "right server, or in a set of at most three"),
        ("precision", "findings that name the culprit in its window"),
        ("false findings in 1,000 healthy job-steps", "false findings in 1,000 healthy job-steps"),
    ),
    "structure": (("jobs exact", "worlds with exact jobs"), ("steps matched", "steps matched")),
}
"""Figures of a summary, by their part of the file, and what a reader calls them."""


def table_of(page: str) -> str:
    """The table of the figures in ``results/reference/PAGE.json``, a column for each method."""
    figures = json.loads((ROOT / f"results/reference/{page}.json").read_text(encoding="utf-8"))
    methods: dict[str, Any] = figures["sets"][page]
    first = next(iter(methods.values()))
    rows = [
        (label, *(written(name, own[part][name]) for own in methods.values()))
        for part, names in _SHOWN.items()
        for name, label in names
    ]
    head = (
        f"{first['worlds']} worlds, {first['due']} due faults",
        *(f"`{one}`" for one in methods),
    )
    return table(head, rows).rstrip("\n") + "\n"


def with_figures(text: str) -> str:
    """``text`` with today's figures between the marks."""
    return _BLOCK.sub(lambda block: f"{block[1]}{table_of(block[2])}{block[3]}", text)


def write() -> None:
    """Write the figures of the README again."""
    text = with_figures(README.read_text(encoding="utf-8"))
    with replacing(README) as partial:
        partial.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
