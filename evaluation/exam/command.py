"""``python -m evaluation exam``: run the exam, and write its page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evaluation.exam import log
from evaluation.exam.figures import figures_of
from evaluation.exam.measuring import METHODS
from evaluation.exam.page import page_of
from evaluation.exam.running import results_of
from evaluation.paths import REFERENCE

PAGE = REFERENCE / "exam.md"
PUBLISHED = 10
"""Worlds of each family on the committed page."""


def exam(
    worlds: Annotated[int, typer.Option(help="Worlds of each family.", min=1)] = PUBLISHED,
    of: Annotated[str, typer.Option("--set", help="develop, exam, or all.")] = "all",
    out: Annotated[Path, typer.Option(help="The page; figures go into a JSON beside it.")] = PAGE,
) -> None:
    """Grade the methods on drawn worlds, and write a page and its figures."""
    results = results_of(of, worlds, METHODS)
    figures = _rounded(document(results, worlds))
    text = json.dumps(figures, indent=1) + "\n"
    out.with_suffix(".json").write_text(text, encoding="utf-8")
    out.write_text(page_of(figures), encoding="utf-8")
    if of != "develop":
        log.append(figures)


def document(results: Sequence[dict[str, Any]], worlds: int) -> dict[str, Any]:
    """Everything that the page says, from the results of ``worlds`` worlds of each family."""
    names = {(result["set"], result["family"]) for result in results}
    return {
        "date": log.today(),
        "commit": log.commit(),
        "worlds": worlds,
        "left_out": worlds * len(names) - len(results),
        "families": {
            of: sorted(family for own, family in names if own == of) for of in ("develop", "exam")
        },
        "sets": figures_of(results),
    }


def _rounded(value: Any) -> Any:
    """The same with numbers of four significant digits: intervals are wider than that."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
