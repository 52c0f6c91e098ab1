"""``python -m evaluation exam | measure | paired``: grade methods, and compare two grades."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from evaluation.exam import log
from evaluation.exam import paired as pairing
from evaluation.exam.figures import figures_of
from evaluation.exam.measuring import METHODS
from evaluation.exam.page import page_of
from evaluation.exam.running import Saved, read, results_of, save
from evaluation.exam.worlds import FIRST_SEED, RESULTS, families, worlds
from evaluation.paths import REFERENCE
from prism_common.errors import Problem, UserError

PAGE = REFERENCE / "exam.md"
PUBLISHED = 20
"""Worlds of each family on the committed page."""

Kept = Annotated[Path, typer.Option(help="Where simulations and results are kept.")]
Processes = Annotated[int | None, typer.Option(help="Parallel processes.", min=1)]


def exam(
    number: Annotated[int, typer.Option("--worlds", help="Of each family.", min=1)] = PUBLISHED,
    out: Annotated[Path, typer.Option(help="The page; figures go into a JSON beside it.")] = PAGE,
    label: Annotated[str | None, typer.Option(help="Name of the results; the commit.")] = None,
    kept: Kept = RESULTS,
    processes: Processes = None,
    before: Annotated[
        str | None, typer.Option(help="Results of an earlier run, shown beside these.")
    ] = None,
) -> None:
    """Grade the methods on the held-out families: a page, its figures, and a line of the log."""
    earlier = read(before, kept) if before else None
    results = results_of(worlds("exam", number), METHODS, kept, processes)
    for method in METHODS:
        save(Saved(label or log.commit(), method, "exam", _only(results, method)), kept)
    figures = _rounded(document(results, number))
    if earlier:
        figures["earlier"] = beside(earlier, _only(results, earlier.method))
    text = json.dumps(figures, indent=1) + "\n"
    out.with_suffix(".json").write_text(text, encoding="utf-8")
    out.write_text(page_of(figures), encoding="utf-8")
    log.append(figures)


def measure(
    label: Annotated[str | None, typer.Option(help="Name of the results; the commit.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="May be repeated; prism if left out.")
    ] = None,
    number: Annotated[int, typer.Option("--worlds", help="Of each family.", min=1)] = 10,
    family: Annotated[
        list[str] | None, typer.Option(help="Only this one; may be repeated.")
    ] = None,
    first_seed: Annotated[int, typer.Option(help="Of each family.", min=0)] = FIRST_SEED,
    kept: Kept = RESULTS,
    processes: Processes = None,
) -> None:
    """Grade methods on worlds for development, and save the results for `paired`."""
    asked = [world for world in worlds("develop", number, first_seed) if _asked(world, family)]
    methods = method or ["prism"]
    results = results_of(asked, methods, kept, processes)
    for one in methods:
        path = save(Saved(label or log.commit(), one, "develop", _only(results, one)), kept)
        typer.echo(f"{len(results)} worlds: {path}")


def paired(
    before: Annotated[str, typer.Argument(help="Label or LABEL.METHOD of results, or a file.")],
    after: Annotated[str, typer.Argument(help="The same, of the other ones.")],
    kept: Kept = RESULTS,
    changes: Annotated[bool, typer.Option(help="List faults that one of them names.")] = False,
) -> None:
    """Print the difference of two results on the same worlds, with 1.96 standard errors."""
    first, second = read(before, kept), read(after, kept)
    couples = pairing.common(first.results, second.results)
    if not couples:
        raise UserError(Problem("the results have no world in common", f"{before}, {after}"))
    found = pairing.differences(first.results, second.results)
    typer.echo(f"{len(couples)} worlds\n")
    typer.echo(pairing.as_table(found, (before, after)))
    if changes and {first.of, second.of} == {"develop"}:
        typer.echo("\n".join(pairing.changes(first.results, second.results)))


def beside(earlier: Saved, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A table of earlier results of a method beside these, on the worlds of both."""
    found = pairing.differences(earlier.results, results)
    return {
        "label": earlier.label,
        "worlds": len(pairing.common(earlier.results, results)),
        "table": pairing.as_table(found, ("before", "now")),
    }


def document(results: Sequence[dict[str, Any]], number: int) -> dict[str, Any]:
    """Everything that the page says, from the results of ``number`` worlds of each family."""
    names = {(result["set"], result["family"]) for result in results}
    return {
        "date": log.today(),
        "commit": log.commit(),
        "worlds": number,
        "left_out": number * len(names) - len(results),
        "families": {
            of: sorted(family for own, family in names if own == of) for of in ("develop", "exam")
        },
        "sets": figures_of(results),
    }


def _asked(world: Any, names: Sequence[str] | None) -> bool:
    unknown = {*(names or ())} - {*families()}
    if unknown:
        raise UserError(Problem(f"there is no family {', '.join(sorted(unknown))}", "--family"))
    return not names or world.family in names


def _only(results: Sequence[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    """The results with the grade of one method."""
    return [row | {"methods": {method: row["methods"][method]}} for row in results]


def _rounded(value: Any) -> Any:
    """The same with numbers of four significant digits: intervals are wider than that."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
