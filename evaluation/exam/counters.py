"""The section about counters on the page of the exam: a pure function of the figures beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evaluation.exam.intervals import Estimate
from evaluation.paths import REFERENCE
from prism_sim.toolkit import table

FIGURES = REFERENCE / "exam-counters.json"
Written = Callable[[str, Estimate], str]
"""Writes an estimate by the name of its figure."""
STRUCTURE = ("jobs exact", "steps matched", "step error", "refused")
FINDINGS = ("recall", "culprit first", "precision", "false findings in 1,000 healthy job-steps")


def made(path: Path = FIGURES) -> str:
    """When, with which code and on how many worlds the figures were computed."""
    if not path.exists():
        return ""
    figures = json.loads(path.read_text(encoding="utf-8"))
    return (
        f"`python -m evaluation counters --worlds {figures['worlds']}` made this section, on"
        f" {figures['date']} with the code of `{figures['commit']}`."
    )


def section(written: Written, path: Path = FIGURES) -> str:
    """The tables of all sets; empty if nothing was measured."""
    if not path.exists():
        return ""
    figures = json.loads(path.read_text(encoding="utf-8"))
    return "\n\n".join(_of_set(name, methods, written) for name, methods in figures["sets"].items())


def _of_set(name: str, methods: Mapping[str, Any], written: Written) -> str:
    """One table: a row for each figure, a column for each interval."""
    rows = [[figure, *_cells(methods, "structure", figure, written)] for figure in STRUCTURE]
    periods = [*next(iter(methods.values()))["period"]]
    rows += [[figure, *_cells(methods, "period", figure, written)] for figure in periods]
    rows += [[figure, *_cells(methods, "findings", figure, written)] for figure in FINDINGS]
    size = next(iter(methods.values()))
    head = f"{name}: {size['worlds']} worlds, {size['due']} faults due"
    return table([head, *methods], rows)


def _cells(methods: Mapping[str, Any], part: str, figure: str, written: Written) -> list[str]:
    name = f"{figure} error" if figure.startswith("error") else figure
    return [written(name, own[part][figure]) for own in methods.values()]
