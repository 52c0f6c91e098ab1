"""``prism-sim regress``: run the suite, list changed figures, exit 3 if one is worse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prism_sim.commands.options import Debug, Json, Processes, Quiet
from prism_sim.commands.session import BELOW, Session, counted, open_session

if TYPE_CHECKING:
    from rich.table import Table

    from prism_sim.studies.regression import CaseResult

REFERENCE = Path("results/reference/regression.json")
_SHOWN = 40  # moved figures in the table of one call; --json has all


def regress(
    suite: Annotated[
        Path | None,
        typer.Option(
            "--suite", metavar="FILE", help="Suite to run, YAML. Default: the bundled one."
        ),
    ] = None,
    reference: Annotated[
        Path, typer.Option("--reference", metavar="FILE", help="Figures to compare with, JSON.")
    ] = REFERENCE,
    update: Annotated[
        bool, typer.Option("--update", help="Rewrite the reference, and show the difference.")
    ] = False,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML as well.")
    ] = None,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run the regression suite; exit 3 if a figure is worse."""
    with open_session(as_json, quiet, debug) as session:
        from prism_sim.loading import bundled
        from prism_sim.studies import regression
        from prism_sim.studies.pool import default_processes

        path = suite or bundled.folder() / "regression.yaml"
        cases = regression.read_suite(path)
        fresh = update and not reference.exists()
        held = {} if fresh else regression.read_reference(reference)
        with session.stage(f"{counted(len(cases), 'case')} of {path.name}") as progress:
            found = regression.run_suite(cases, processes or default_processes(), progress)
        verdicts = regression.compare(found, held)
        if junit_file:
            _write(junit_file, regression.junit(verdicts, path.stem))
        if update:
            regression.write_reference(reference, found)
            session.note(f"wrote {reference}")
        _report(session, verdicts)
        if any(verdict.failed for verdict in verdicts) and not update:
            raise SystemExit(BELOW)


def _write(path: Path, text: str) -> None:
    from llmprism.io.writing import replacing

    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def _report(session: Session, verdicts: list[CaseResult]) -> None:
    moves = [move for verdict in verdicts for move in verdict.moves]
    worse = sum(verdict.failed for verdict in verdicts)
    figures = sum(verdict.figures for verdict in verdicts)
    lines = [f"{verdict.case}: {verdict.error}" for verdict in verdicts if verdict.error]
    counts = {
        kind: sum(m.verdict == kind for m in moves) for kind in ("lost", "moved", "gained", "new")
    }
    summary = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
    lines.append(
        f"{counted(len(verdicts), 'case')}, {counted(figures, 'figure')}: "
        f"{summary or 'none moved'}; {counted(worse, 'case')} failed"
    )
    data = {"cases": [verdict.as_data() for verdict in verdicts], "worse": worse, **counts}
    shown: list[Any] = [_table(moves[:_SHOWN])] if moves else []
    if len(moves) > _SHOWN:
        lines.insert(0, f"and {len(moves) - _SHOWN} more; --json lists all")
    session.result(data, *shown, *lines)


def _table(moves: list[Any]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from prism_sim.studies.regression import FAILING

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("case", "figure", "was", "now", ""):
        table.add_column(column, justify="right" if column in ("was", "now") else "left")
    for move in sorted(moves, key=lambda move: move.verdict not in FAILING):
        style = "red" if move.verdict in FAILING else ""
        values = (_shown(move.was), _shown(move.now), move.verdict)
        table.add_row(*(Text(text) for text in (move.case, move.figure, *values)), style=style)
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
