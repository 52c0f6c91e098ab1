"""``prism-sim regress``: run the suite, list headlines that moved, exit 3 if one is worse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prism_common.command import option
from prism_common.errors import Problem, UserError
from prism_common.quantities import counted
from prism_sim.commands.options import Processes
from prism_sim.commands.session import BELOW, Session

if TYPE_CHECKING:
    from rich.table import Table

    from prism_sim.studies.pool import Outcome
    from prism_sim.studies.regression.comparing import Comparison
    from prism_sim.studies.regression.reference import Reference
    from prism_sim.studies.regression.running import CaseRun
    from prism_sim.studies.regression.suite import Case


SuiteFile = Annotated[
    Path | None, option("FILE", "Suite to run, YAML. Default: the bundled one.", "--suite")
]
ReferenceFile = Annotated[
    Path | None,
    option(
        "FILE",
        "Figures to compare with, JSON. Default: the file of the suite's name beside it.",
        "--reference",
    ),
]
Update = Annotated[
    bool, typer.Option("--update", help="Rewrite the reference; print the difference in Markdown.")
]
Raw = Annotated[
    bool, typer.Option("--raw", help="Also show every figure of every case that moved.")
]
JunitFile = Annotated[Path | None, option("FILE", "Write JUnit XML as well.", "--junit")]
SummaryFile = Annotated[
    Path | None, option("FILE", "Append the result to FILE, in Markdown.", "--summary")
]


def regress(
    session: Session,
    suite: SuiteFile = None,
    reference: ReferenceFile = None,
    update: Update = False,
    raw: Raw = False,
    junit_file: JunitFile = None,
    summary_file: SummaryFile = None,
    processes: Processes = None,
) -> None:
    """Run the regression suite; exit 3 if a headline is worse, or a simulation is another one."""
    from prism_common.files import refuse_foreign
    from prism_sim.loading import bundled
    from prism_sim.studies.regression.suite import read_suite

    refuse_foreign(junit_file, "prism-sim", "--junit")
    path = suite or bundled.folder() / "regression.yaml"
    held_at = reference or path.with_suffix(".json")
    cases = read_suite(path)
    held = _held(held_at, cases, update=update)
    if update and reference is None and suite is None and bundled.is_installed():
        raise UserError(Problem("this reference belongs to the installation", str(held_at),
                                "name a file of yours with --reference"))  # fmt: skip
    found, comparison = _compared(session, path, cases, held, processes)
    _write_files(comparison, path.stem, junit_file, summary_file)
    if update:
        _update(session, held_at, cases, found, comparison, first=not held.keys)
    else:
        _show(session, comparison, raw=raw)


def _compared(
    session: Session, path: Path, cases: list[Case], held: Reference, processes: int | None
) -> tuple[dict[str, Outcome[CaseRun]], Comparison]:
    """Run the suite in ``path``, and compare its figures with those that are ``held``."""
    from prism_sim.studies.pool import default_processes
    from prism_sim.studies.regression.comparing import compare
    from prism_sim.studies.regression.running import run_suite

    with session.stage(f"{counted(len(cases), 'case')} of {path.name}") as progress:
        found = run_suite(cases, processes or default_processes(), progress)
    return found, compare(cases, found, held)


def _write_files(
    comparison: Comparison, name: str, junit_file: Path | None, summary_file: Path | None
) -> None:
    """Write JUnit XML, and append a summary, since a job summary may hold earlier steps'."""
    from prism_common.files import replacing_marked
    from prism_sim.studies.regression.documents import junit, markdown

    if junit_file:
        with replacing_marked(junit_file, "prism-sim", "--junit") as partial:
            partial.write_text(junit(comparison, name), encoding="utf-8")
    if summary_file:
        with summary_file.open("a", encoding="utf-8") as file:
            file.write(markdown(comparison, "prism-sim regress"))


def _show(session: Session, comparison: Comparison, *, raw: bool) -> None:
    """Print what moved; exit 3 if a headline is worse, or a simulation is another one."""
    from prism_sim.studies.regression.comparing import as_data
    from prism_sim.studies.regression.documents import reasons, summary

    tables = _tables(comparison, raw=raw)
    session.result(as_data(comparison, raw=raw), *tables, *reasons(comparison), summary(comparison))
    if comparison.failed:
        raise SystemExit(BELOW)


def _held(path: Path, cases: list[Case], *, update: bool) -> Reference:
    """The reference to compare with; one that is replaced may be stale, or missing."""
    from prism_sim.studies.regression.reference import read_former, read_reference, refuse_stale

    if update:
        return read_former(path)
    held = read_reference(path)
    refuse_stale(held, cases, path)
    return held


def _update(
    session: Session,
    path: Path,
    cases: list[Case],
    found: dict[str, Outcome[CaseRun]],
    comparison: Comparison,
    *,
    first: bool,
) -> None:
    """Write the reference, and print how it differs from the one before."""
    from prism_sim.studies.regression.comparing import as_data, runs_of
    from prism_sim.studies.regression.documents import markdown
    from prism_sim.studies.regression.headlines import headlines
    from prism_sim.studies.regression.reference import reference_of, write_reference

    if comparison.errors:
        raise UserError(Problem(error, name) for name, error in comparison.errors.items())
    runs = runs_of(found)
    made = reference_of(cases, headlines(cases, runs), runs)
    write_reference(path, made)
    session.note(f"wrote {path}")
    shown = (
        f"a new reference: {counted(len(made.headlines), 'headline')} of "
        f"{counted(len(cases), 'case')}, {comparison.raw_figures} raw figures"
        if first
        else markdown(comparison, "prism-sim regress --update")
    )
    session.result({"wrote": str(path), **as_data(comparison, raw=True)}, shown)


def _tables(comparison: Comparison, *, raw: bool) -> list[Any]:
    from prism_sim.studies.regression.comparing import FAILING
    from prism_sim.studies.regression.documents import COLUMNS, cells, shown

    tables = []
    if raw and comparison.raw:
        rows = [
            ((one.case, one.method, one.figure, shown(one.was), shown(one.now), one.verdict), "")
            for one in comparison.raw
        ]
        tables.append(_table(("case", "method", "figure", "was", "now", ""), rows))
    if comparison.moved:
        held = [(cells(one), "red" if one.verdict in FAILING else "") for one in comparison.moved]
        tables.append(_table(COLUMNS, held))
    return tables


def _table(columns: Sequence[str], rows: Iterable[tuple[Sequence[str], str]]) -> Table:
    from rich.text import Text

    from llmprism.terminal import empty_table

    table = empty_table()
    for column in columns:
        table.add_column(column, justify="right" if column in ("was", "now") else "left")
    for row, style in rows:
        table.add_row(*map(Text, row), style=style)
    return table
