"""``llmprism report``: the command line of the page.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmprism.options import HELP
from prism_common.command import Command, Debug, Version, new_app, user_errors

report_app = new_app()


@report_app.command(help=HELP["page"], cls=Command)
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A diagnosis with its flow records.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write; FOLDER/report.html if not given."),
    ] = None,
    debug: Debug = False,
    _version: Version = False,
) -> None:
    """Make the page of a folder."""
    with user_errors(debug):
        from llmprism.page.page import write_page

        typer.echo(write_page(folder, out))
