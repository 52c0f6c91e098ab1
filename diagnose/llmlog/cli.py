"""``llmlog LOGS...``: find what failed first in training jobs, from their logs alone.

Results go to stdout, messages to stderr. Exit codes: 0 success; 1 the logs cannot be read; 2 wrong
usage; 4 no failure is stated, or the logs are not understood.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from prism_common.command import (
    AsJson,
    Command,
    Debug,
    Quiet,
    Tables,
    Version,
    new_app,
    option,
    user_errors,
)
from prism_common.escapes import printable
from prism_common.program import run_program
from prism_common.version import __version__

if TYPE_CHECKING:
    from llmlog.streams import Intake
    from llmlog.tables import Results

TOLD_NOTHING = 4
_NOTES, _LIKE = 20, 4
"""Notes that are printed, and lines that are shown of a job that is not understood."""
_SHOWN = ("job", "stage", "node", "ranks", "iteration", "cause", "confidence")


class LogCommand(Command):
    """The command of ``llmlog``."""

    version: ClassVar[str] = f"llmlog {__version__}"


app = new_app()


@app.command(cls=LogCommand)
def run(
    logs: Annotated[list[Path], typer.Argument(metavar="LOGS...", show_default=False)],
    out: Tables = None,
    page: Annotated[Path | None, option("FILE", "Write a page of the answers (HTML).")] = None,
    flows: Annotated[
        Path | None, option("FOLDER", "What llmprism --out found in flows of these nodes.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    debug: Debug = False,
    _version: Version = False,
) -> None:
    """Find the cause, the first node and rank, the stage and the iteration of failed jobs.

    LOGS are folders or files: a folder with index.json (jobs of a scheduler), or the output of one
    job, dumps of PyTorch's flight recorder among them. Files may be compressed (gzip, zstd, bzip2,
    xz) and rotated (.log.1, .log.2, ...).

    Results go to stdout, messages to stderr. Exit codes: 0 success; 1 the logs cannot be read;
    2 wrong usage; 4 no failure is stated, or the logs are not understood.
    """
    with user_errors(debug):
        from llmlog.page import write_page
        from llmlog.streams import Intake
        from llmlog.tables import check_target

        intake = Intake()
        if out is not None:
            check_target(Path(out))  # before the work
        results = _diagnosed(logs, flows, intake)
        _check_read(logs, intake)
        if out is not None:
            results.write(Path(out))
        if page is not None:
            write_page(results, page)
    if not quiet:
        _report(intake, results)
        for row in results.rows["jobs"]:
            _tell_unread(row)
    typer.echo(results.summary() if as_json else _table(results.rows["failures"]))
    if not results.rows["failures"]:
        _tell_nothing(results)
        raise typer.Exit(TOLD_NOTHING)


def _diagnosed(logs: list[Path], flows: Path | None, intake: Intake) -> Results:
    from llmlog.diagnosis import diagnose
    from llmlog.flows import Flows
    from llmlog.reading import find_jobs
    from llmlog.tables import Results

    results = Results()
    seen = None if flows is None else Flows.read(flows)
    for evidence, failure in diagnose(find_jobs(logs), intake, seen):
        results.add(evidence, failure)
    return results


def _check_read(logs: list[Path], intake: Intake) -> None:
    from prism_common.errors import Problem, UserError

    if not intake.lines and not intake.dumps:
        where = ", ".join(map(str, logs))
        reason = f" ({intake.notes[0]})" if intake.notes else ""
        raise UserError(Problem(f"no line could be read{reason}", where, "give files of text"))


def _report(intake: Intake, results: Results) -> None:
    if intake.files:
        text = f"read {intake.lines} lines, {intake.nbytes} bytes, of {intake.files} files"
        rows = [row for row in results.rows["jobs"] if row["lines"]]
        if total := sum(row["lines"] for row in rows):
            known = sum(row["understood"] * row["lines"] for row in rows)
            text += f"; {100 * known / total:.0f} % of the lines are of known kinds"
        typer.echo(text, err=True)
    if intake.dumps:
        typer.echo(f"read {intake.dumps} dumps of the flight recorder", err=True)
    for text in intake.notes[:_NOTES]:
        typer.echo(printable(text), err=True)
    if len(intake.notes) > _NOTES:
        typer.echo(f"... and {len(intake.notes) - _NOTES} more notes of this kind", err=True)


def _tell_unread(row: dict[str, Any]) -> None:
    """Lines with words of errors that were not read, of a job without a failure."""
    if row["failed"] or row["state"] is not None:
        return
    for text in json.loads(row["unread"]):
        typer.echo(f"  not read: {printable(text)}", err=True)


def _tell_nothing(results: Results) -> None:
    """Why there is no answer: nothing failed, or too little was understood to say so."""
    dark = [row for row in results.rows["jobs"] if row["failed"] is None]
    if not dark:
        typer.echo("no job failed, or the logs do not say so", err=True)
    for row in dark:
        typer.echo(f"{row['job']}: not understood: {row['lines']} lines, such as", err=True)
        for text in json.loads(row["samples"])[:_LIKE]:
            typer.echo(f"  {printable(text)}", err=True)


def _table(rows: list[dict[str, Any]]) -> str:
    """Failures as columns; characters that would control a terminal are shown as escapes."""
    cells = [list(_SHOWN), *([_cell(row[name]) for name in _SHOWN] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _cell(value: object) -> str:
    from llmlog.tables import ranges

    text = "-" if value in (None, "[]") else str(value)
    return printable(ranges(json.loads(text)) if text.startswith("[") else text)


def main() -> None:
    """Run the command line; ``--version`` takes precedence over missing arguments."""
    run_program(app)
