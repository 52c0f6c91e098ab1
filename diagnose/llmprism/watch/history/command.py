"""``llmprism history``: the command line of the history.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmprism.ingest.arguments import Json
from llmprism.options import HELP
from prism_common.command import Command, Debug, new_app, option, user_errors
from prism_common.escapes import printable

history_app = new_app()


@history_app.command(help=HELP["history"], cls=Command)
def history(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Of a monitor.", show_default=False)
    ],
    question: Annotated[str, typer.Argument(metavar="[QUESTION]", help="What to answer.")] = (
        "culprits"
    ),
    days: Annotated[int, option("N", "The last days that the history has.", min=1)] = 30,
    job: Annotated[str, typer.Option(metavar="NAME", help="Only of this job.")] = "",
    place: Annotated[str, option("NAME", "Only at this server, switch or link.")] = "",
    severity: Annotated[str, option("NAME", "Only critical, warning or info.")] = "",
    from_time: Annotated[
        str | None, option("TIME", "Only since, such as 2026-03-01.", "--from")
    ] = None,
    to_time: Annotated[str | None, option("TIME", "Only before.", "--to")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Answer a question."""
    with user_errors(debug):
        from llmprism.ingest.options import parse_time
        from llmprism.watch.settings import with_monitor

        times = (("--from", from_time), ("--to", to_time))
        from_ns, to_ns = (parse_time(text, name) if text else None for name, text in times)
        questions = with_monitor("llmprism.watch.history.questions")
        if question not in questions.QUESTIONS:
            listed = ", ".join(questions.QUESTIONS)
            raise typer.BadParameter(f"there is no {question!r}; known: {listed}")
        wanted = questions.Filter(job, place, severity, from_ns, to_ns)
        found = questions.answer(folder, question, days, wanted)
    if as_json:
        typer.echo(found.to_json(orient="records", indent=1, date_format="iso"))
    elif len(found):
        typer.echo(printable(found.to_string(index=False), keep="\n"))
    else:
        typer.echo("nothing was found")
