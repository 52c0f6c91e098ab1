"""``python -m evaluation exam | measure | paired``: grade methods, and compare two grades."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from evaluation.exam import answers, log, measuring, truth
from evaluation.exam import paired as pairing
from evaluation.exam.figures import figures_of
from evaluation.exam.measuring import METHODS, Row, Task
from evaluation.exam.page import page_of
from evaluation.exam.worlds import FIRST_SEED, RESULTS, World, families, worlds
from evaluation.paths import REFERENCE
from prism_common.errors import Problem, UserError
from prism_common.files import replacing
from prism_sim.toolkit import Content, Piece, default_processes, fingerprint, kept_results

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


# Runs the exam: every world and method is a piece of work, each result in a file of its own.
#
# A result is kept under a key of all that it depends on: the code of the packages, the code of the
# measures, the scenario, and the method. An interrupted run continues where it stopped, and another
# method, or more worlds, repeat nothing.
#
# For paired comparisons, results of one method are saved under a label that names a state of the
# code: by default the commit, with a ``+`` for changes that were not committed.

FOLDER = "labels"
USUAL = "prism"
"""The method of a label that names none."""


def results_of(
    asked: Sequence[World],
    methods: Sequence[str],
    kept: Path = RESULTS,
    processes: int | None = None,
) -> list[Row]:
    """The result of every world, in order; missing ones are computed.

    A world that could not be measured is reported and left out.
    """
    found = kept_results(
        measuring.measure,
        [piece for method in methods for piece in pieces(asked, method, kept)],
        kept / "kept",
        processes or default_processes(),
        lambda _, text: print(text, file=sys.stderr),
    )
    joined = [_joined(found[at :: len(asked)]) for at in range(len(asked))]
    return [row for row in joined if row is not None]


def pieces(asked: Iterable[World], method: str, kept: Path = RESULTS) -> Iterator[Piece[Task]]:
    """The work for each of the worlds with one method."""
    for world in asked:
        name = f"{method} {world.family} {world.seed}"
        yield Piece(_key(world, method), name, Task(world, method, kept))


def _joined(found: Sequence[Content]) -> Row | None:
    """The result of one world with the grades of all methods; None if one could not be measured."""
    for one in found:
        if "error" in one:
            print(f"left out: {one['case']}: {one['error']}", file=sys.stderr)
            return None
    grades = {method: row for one in found for method, row in one["result"]["methods"].items()}
    first: Row = found[0]["result"]
    return first | {"methods": grades}


def _key(world: World, method: str) -> str:
    family = families()[world.family].model_dump(mode="json")
    measures = [Path(str(module.__file__)).read_text() for module in (measuring, truth, answers)]
    text = json.dumps([fingerprint(), measures, family, world.seed, method], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Saved:
    """The results of ``method`` on worlds of the set ``of``, with the code of ``label``."""

    label: str
    method: str
    of: str
    results: list[dict[str, Any]]


def save(saved: Saved, kept: Path = RESULTS) -> Path:
    """Write results; those of the same label, method and set are replaced."""
    path = _path(kept, f"{saved.label}.{saved.method}", saved.of)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(json.dumps(asdict(saved)), encoding="utf-8")
    return path


def read(name: str, kept: Path = RESULTS) -> Saved:
    """Results by their file, or by ``LABEL`` or ``LABEL.METHOD``; those of `develop` go first.

    Raises
    ------
    UserError : there are none.
    """
    names = [name, f"{name}.{USUAL}"]
    paths = [_path(kept, one, of) for one in names for of in ("develop", "exam")]
    for path in (Path(name), *paths):
        if path.is_file():
            return Saved(**json.loads(path.read_text(encoding="utf-8")))
    there = ", ".join(sorted(path.stem for path in (kept / FOLDER).rglob("*.json"))) or "none"
    how = f"measure them: python -m evaluation measure --label {name}; there are: {there}"
    raise UserError(Problem(f"no results {name}", str(kept / FOLDER), how))


def _path(kept: Path, name: str, of: str) -> Path:
    return kept / FOLDER / of / f"{name}.json"
