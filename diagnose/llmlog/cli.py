"""``llmlog LOGS...``: find what failed first in training jobs, from their logs alone.

Results go to stdout, messages to stderr. Exit codes: 0 success; 1 the logs cannot be read; 2 wrong
usage; 4 the logs say nothing about a failure.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from llmlog.streams import Intake
    from llmlog.tables import Results

HELP = """Find the cause, the first node and rank, the stage and the iteration of failed jobs.

LOGS are folders or files: a folder with index.json (jobs of a scheduler), or the output of one
job, dumps of PyTorch's flight recorder among them. Files may be compressed (gzip, zstd, bzip2,
xz) and rotated (.log.1, .log.2, ...).

Results go to stdout, messages to stderr. Exit codes: 0 success; 1 the logs cannot be read;
2 wrong usage; 4 the logs say nothing about a failure.
"""
TOLD_NOTHING = 4
_NOTES = 20
_SHOWN = ("job", "stage", "node", "ranks", "iteration", "cause", "confidence")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
def run(
    logs: Annotated[list[Path], typer.Argument(metavar="LOGS...", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for the tables, as Parquet.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only results and errors.")] = False,
) -> None:
    """Diagnose logs."""
    from llmlog.errors import LogError
    from llmlog.streams import Intake

    intake = Intake()
    try:
        results = _diagnosed(logs, intake)
        if out is not None:
            results.write(out)
    except (LogError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    if not quiet:
        _report(intake)
    typer.echo(results.summary() if as_json else _table(results.rows["failures"]))
    if not results.rows["failures"]:
        typer.echo("no job failed, or the logs do not say so", err=True)
        raise typer.Exit(TOLD_NOTHING)


def _diagnosed(logs: list[Path], intake: Intake) -> Results:
    from llmlog.diagnosis import diagnose
    from llmlog.errors import LogError
    from llmlog.reading import find_jobs
    from llmlog.tables import Results

    results = Results()
    for evidence, failure in diagnose(find_jobs(logs), intake):
        results.add(evidence, failure)
    if not intake.lines and not intake.dumps:
        where = ", ".join(map(str, logs))
        reason = f" ({intake.notes[0]})" if intake.notes else ""
        raise LogError(where, f"no line could be read{reason}", "give files of text")
    return results


def _report(intake: Intake) -> None:
    if intake.files:
        typer.echo(
            f"read {intake.lines} lines, {intake.nbytes} bytes, of {intake.files} files", err=True
        )
    if intake.dumps:
        typer.echo(f"read {intake.dumps} dumps of the flight recorder", err=True)
    for text in intake.notes[:_NOTES]:
        typer.echo(_printable(text), err=True)
    if len(intake.notes) > _NOTES:
        typer.echo(f"... and {len(intake.notes) - _NOTES} more notes of this kind", err=True)


def _table(rows: list[dict[str, Any]]) -> str:
    """Failures as columns; characters that would control a terminal are shown as escapes."""
    cells = [list(_SHOWN), *([_cell(row[name]) for name in _SHOWN] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _cell(value: object) -> str:
    return _printable("-" if value is None else str(value))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def main() -> None:
    """Run the command line."""
    app()
