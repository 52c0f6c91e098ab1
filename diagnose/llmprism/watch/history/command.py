"""``llmprism history``: the command line of the history.

Only the standard library and typer are imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmprism.command import SETTINGS, Command, user_errors

HELP = """Answer a question about what a monitor has found.

FOLDER is that of `llmprism watch --state`. QUESTION is one of: culprits (which server, switch or
link was the culprit most often), findings (each incident, the latest first), jobs (the steps of
each job), layouts (servers and layouts of jobs, as they changed).
"""

history_app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


@history_app.command(help=HELP, cls=Command)
def history(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Of a monitor.", show_default=False)
    ],
    question: Annotated[str, typer.Argument(metavar="[QUESTION]", help="What to answer.")] = (
        "culprits"
    ),
    days: Annotated[
        int, typer.Option(metavar="N", min=1, help="The last days that the history has.")
    ] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Answer a question."""
    with user_errors(debug):
        from llmprism.errors import Problem, UserError

        try:
            from llmprism.watch.history.questions import QUESTIONS, answer
        except ModuleNotFoundError as error:
            how = "pip install 'prism-sim[monitor]'"
            raise UserError(Problem(f"the package {error.name} is missing", "", how)) from error
        if question not in QUESTIONS:
            listed = ", ".join(QUESTIONS)
            raise typer.BadParameter(f"there is no {question!r}; known: {listed}")
        found = answer(folder, question, days)
    if as_json:
        typer.echo(found.to_json(orient="records", indent=1, date_format="iso"))
    elif len(found):
        typer.echo(found.to_string(index=False))
    else:
        typer.echo("nothing was found")
