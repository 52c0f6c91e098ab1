"""Figures that stand in several pages, from the one file that has them.

``results/reference/exam.json`` has the figures of both methods, and ``evidence.md`` those of kinds
of telemetry. A page of the site has the first by the marker ``made: figures exam``. The README,
which nobody builds, has both between the marks ``figures: NAME`` and ``/figures``: ``python -m
docs.building.figures`` writes them there again, and a test compares.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from evaluation.exam.page import written
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
_KINDS = (
    "flows, every packet", "flows, sampled 1:1,000", "counters, 1 s", "collectives, all ranks",
    "flows, every packet + collectives, all ranks",
)  # fmt: skip


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
    head = f"{first['worlds']} worlds, {first['due']} due faults", *(f"`{one}`" for one in methods)
    return table(head, rows).rstrip("\n") + "\n"


def worth(page: str) -> str:
    """Right servers and bytes of some kinds of telemetry, from the page that has all."""
    text = (ROOT / f"results/reference/{page}.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in text.partition("![")[0].splitlines()]
    rows = {kind: (kind, shown[0], shown[-1]) for kind, *shown in cells if shown}
    head = ("telemetry", "right server, or in the set", "MB a GPU and hour")
    return table(head, [rows[kind] for kind in _KINDS]).rstrip("\n") + "\n"


def with_figures(text: str) -> str:
    """``text`` with today's figures between the marks."""
    made = {"exam": table_of, "evidence": worth}
    return _BLOCK.sub(lambda block: f"{block[1]}{made[block[2]](block[2])}{block[3]}", text)


def write() -> None:
    """Write the figures of the README again."""
    text = with_figures(README.read_text(encoding="utf-8"))
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
