"""``llmprism check``: the command line of this package.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json

import typer

from llmprism.ingest import arguments
from prism_common.command import Command, new_app, user_errors
from prism_common.escapes import printable
from prism_common.progress import reporting

CHECK_HELP = """Say on one page what flow records allow, and which setting would allow more.

FLOWS is a flow table, as `llmprism ingest` writes it. Without --topology, what the records show
of the network is taken.
"""

check_app = new_app()


@check_app.command(help=CHECK_HELP, cls=Command)
def check_command(
    flows: arguments.Flows,
    topology: arguments.PhysicalNetwork = None,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    debug: arguments.Debug = False,
) -> None:
    """Say what flow records allow."""
    with user_errors(debug):
        from llmprism.check.checking import as_dict, check

        with reporting(quiet) as progress:
            found, lines, diagnosis = check(flows, topology, progress)
    if as_json:
        typer.echo(json.dumps(as_dict(found, lines), indent=1, allow_nan=False))
        return
    typer.echo(f"{found.records:,} records")
    for line in lines:
        typer.echo(f"{line.answer:>7}  {line.stage}: {printable(line.figures)}")
        if line.mend:
            typer.echo(f"         to get it: {printable(line.mend)}")
    for line_of_verdict in diagnosis.verdict.lines() if diagnosis else []:
        typer.echo(printable(line_of_verdict))
