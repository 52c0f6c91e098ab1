"""``llmprism check``: the command line of this package.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from llmprism.ingest import arguments
from prism_common.command import Command, Quiet, new_app, user_errors
from prism_common.escapes import printable
from prism_common.progress import reporting

if TYPE_CHECKING:
    from llmprism.check.stages import Stage

CHECK_HELP = """Say on one page what flow records allow, and which setting would allow more.

FLOWS is a flow table, as `llmprism ingest` writes it, or a Parquet table of counters. Without
--topology, what flow records show of the network is taken; counters need one.
"""

check_app = new_app()


@check_app.command(help=CHECK_HELP, cls=Command)
def check_command(
    flows: arguments.Flows,
    topology: arguments.PhysicalNetwork = None,
    as_json: arguments.Json = False,
    quiet: Quiet = False,
    debug: arguments.Debug = False,
) -> None:
    """Say what flow records allow."""
    with user_errors(debug):
        from llmprism.check.checking import as_dict, check
        from llmprism.check.counted import is_counters

        if is_counters(flows):
            _check_counters(flows, topology, as_json)
            return

        with reporting(quiet) as progress:
            found, lines, diagnosis = check(flows, topology, progress)
    if as_json:
        typer.echo(json.dumps(as_dict(found, lines), indent=1, allow_nan=False))
        return
    typer.echo(f"{found.records:,} records")
    _print(lines, diagnosis.verdict.lines() if diagnosis else [])


def _print(lines: Iterable[Stage], verdict: Iterable[str]) -> None:
    """Print what records allow; names in them come from others."""
    for line in lines:
        typer.echo(f"{line.answer:>7}  {line.stage}: {printable(line.figures)}")
        if line.mend:
            typer.echo(f"         to get it: {printable(line.mend)}")
    for line_of_verdict in verdict:
        typer.echo(printable(line_of_verdict))


def _check_counters(table: Path, topology: Path | None, as_json: bool) -> None:
    """Say what counters of ports allow."""
    from dataclasses import asdict

    from llmprism.check.counted import check

    result, lines = check(table, topology)
    if as_json:
        typer.echo(json.dumps({"stages": [asdict(line) for line in lines]}, indent=1))
        return
    typer.echo(f"{result.diagnosis.intake.rows:,} readings of {len(result.codes):,} ports")
    _print(lines, result.diagnosis.verdict.lines())
