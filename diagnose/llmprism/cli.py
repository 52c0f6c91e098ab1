"""``llmprism FLOWS --topology TOPO``: the diagnoser alone, for people with real flows.

Results go to stdout, everything else to stderr. Only the standard library and typer are
imported here, so that ``--help`` answers at once; the rest is imported when there is work.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from llmprism.diagnosis import Diagnosis
    from llmprism.model import Progress

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_PLAIN_WIDTH = 110  # columns where the output is no terminal
_SHOWN = 20  # findings shown in the table; all are in --json and --out


@app.command()
def run(
    flows: Annotated[Path, typer.Argument(help="Flow records, Parquet.", show_default=False)],
    topology: Annotated[Path, typer.Option(help="The physical network, JSON.", show_default=False)],
    method: Annotated[str, typer.Option(help="How to diagnose.")] = "paper",
    out: Annotated[
        Path | None, typer.Option(help="Folder to write the tables to, as Parquet.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only results and errors.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Tell jobs, parallelism, steps and slow parts from flow records and the topology."""
    from llmprism import methods, pipeline
    from llmprism.errors import UserError

    if method not in methods.names():
        known = ", ".join(methods.names())
        raise typer.BadParameter(f"there is no {method!r}; known: {known}", param_hint="--method")
    try:
        with _reporting(quiet) as progress:
            diagnosis = pipeline.diagnose_files(flows, topology, method, progress)
        if out is not None:
            diagnosis.write(out)
    except UserError as error:
        if debug:
            raise
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    if not quiet:
        _tell_intake(diagnosis, out)
    if as_json:
        typer.echo(json.dumps(diagnosis.summary(), indent=1, allow_nan=False))
    else:
        _show(diagnosis)


@contextmanager
def _reporting(quiet: bool) -> Iterator[Progress]:
    """Yield where progress is to be reported: a bar if someone is there to see it."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0)

        def report(fraction: float, doing: str) -> None:
            bar.update(task, completed=fraction, description=doing)

        yield report


def _tell_intake(diagnosis: Diagnosis, out: Path | None) -> None:
    intake = diagnosis.intake
    for reason, count in intake.set_aside.items():
        typer.echo(f"set aside {count} of {intake.rows} records: {reason}", err=True)
    if intake.unknown_addresses:
        named = ", ".join(f"{name} ({count})" for name, count in intake.unknown_addresses.items())
        typer.echo(f"addresses unknown to the topology: {named}", err=True)
    if out is not None:
        typer.echo(f"tables written to {out}", err=True)


def _show(diagnosis: Diagnosis) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    summary = diagnosis.summary()
    rows = [
        [
            job["job"],
            str(job["addresses"]),
            ", ".join(f"{count} {kind}" for kind, count in sorted(job["pairs"].items())),
            str(job["groups"].get("dp", 0)),
            str(job["groups"].get("pp", 0)),
            str(job["steps"]),
            "" if job["step_median_s"] is None else f"{job['step_median_s']:.4g} s",
        ]
        for job in summary["jobs"]
    ]
    heads = ["job", "addresses", "pairs", "DP groups", "pipelines", "steps", "median step"]
    console.print(_table(f"Jobs (method {diagnosis.method})", heads, rows))
    found = summary["findings"]
    rows = [
        [
            one["level"],
            one["symptom"],
            one["job"],
            _culprit(one),
            f"{one['first_step']}-{one['last_step']}",
            f"{one['magnitude']:.3g}x",
            f"{one['cost'] / 1e9:.3g} s",
            f"{one['confidence']:.2f}",
        ]
        for one in found[:_SHOWN]
    ]
    heads = ["level", "symptom", "job", "culprit", "steps", "to normal", "cost", "confidence"]
    more = f", first {_SHOWN} of {len(found)}" if len(found) > _SHOWN else ""
    console.print(_table(f"Findings{more}", heads, rows) if rows else "Nothing stands out.")


def _culprit(finding: dict[str, Any]) -> str:
    """Return the culprit's name, or how many addresses are affected if none stands apart."""
    evidence = finding["evidence"]
    if finding["culprit_kind"] == "job" and {"affected", "of"} <= evidence.keys():
        return f"{evidence['affected']} of {evidence['of']} addresses, not localised"
    return str(finding["culprit"])


def _table(title: str, heads: list[str], rows: list[list[str]]) -> Table:
    from rich.table import Table

    table = Table(*heads, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    return table


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
