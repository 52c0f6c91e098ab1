"""``python -m evaluation exam``: run the exam, and write its page."""

from __future__ import annotations

from typing import Annotated

import typer

from evaluation.exam.measuring import METHODS
from evaluation.exam.running import results_of


def exam(
    worlds: Annotated[int, typer.Option(help="Worlds of each family.", min=1)] = 10,
    of: Annotated[str, typer.Option("--set", help="develop, exam, or all.")] = "all",
) -> None:
    """Grade the methods on drawn worlds, and write results/reference/exam.md."""
    results = results_of(of, worlds, METHODS)
    typer.echo(f"{len(results)} worlds")
