"""``llmprism check``: the command line of this package.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json

import typer

from llmprism.ingest import arguments
from llmprism.options import HELP
from prism_common.command import Command, Quiet, new_app, user_errors
from prism_common.escapes import printable
from prism_common.progress import reporting

check_app = new_app()


@check_app.command(help=HELP["check"], cls=Command)
def check_command(
    flows: arguments.Flows,
    topology: arguments.PhysicalNetwork = None,
    as_json: arguments.Json = False,
    quiet: Quiet = False,
    debug: arguments.Debug = False,
) -> None:
    """Say what flow records allow."""
    with user_errors(debug):
        from llmprism.check.checking import check

        with reporting(quiet) as progress:
            page = check(flows, topology, progress)
    if as_json:
        typer.echo(json.dumps(page.content, indent=1, allow_nan=False))
        return
    typer.echo(page.heading)
    for line in page.stages:  # names in them come from others
        typer.echo(f"{line.answer:>7}  {line.stage}: {printable(line.figures)}")
        if line.mend:
            typer.echo(f"         to get it: {printable(line.mend)}")
    for line_of_verdict in page.verdict:
        typer.echo(printable(line_of_verdict))
