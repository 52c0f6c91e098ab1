"""Commands of both programs: ``--version`` anywhere, and help without types of the language."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperArgument, TyperCommand

from prism_common.program import is_memory_error
from prism_common.version import __version__

TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit", metavar="S", min=0.1, help="Time of another package's method [s]."
    ),
]
MemoryLimit = Annotated[
    float,
    typer.Option(
        "--memory-limit", metavar="GIB", min=0.1, help="Memory of another package's method [GiB]."
    ),
]
AtOnce = Annotated[
    int,
    typer.Option(
        "--at-once",
        metavar="N",
        min=1,
        help="Records in memory at once; a larger Parquet file is diagnosed in parts.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Dask scheduler, such as tcp://10.0.0.1:8786, whose workers diagnose the parts.",
    ),
]
PLAIN_WIDTH = 80  # columns if the output is not a terminal
SETTINGS = {"help_option_names": ["-h", "--help"]}


def new_app() -> typer.Typer:
    """A command line without commands yet, whose help and errors are plain text."""
    return typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=SETTINGS,
    )


def answer_version(arguments: list[str], line: str) -> None:
    """Print ``line`` and exit, if ``--version`` is among the arguments."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--version" in options:
        print(line)
        raise typer.Exit(0)


@contextmanager
def user_errors(debug: bool) -> Iterator[None]:
    """Print what the user can mend in a line each, and exit 1."""
    from prism_common.errors import UserError

    try:
        yield
    except UserError as error:
        if debug:
            raise
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        if debug or is_memory_error(error):
            raise
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        raise typer.Exit(1) from None


class PlainArgument(TyperArgument):
    """An argument that help calls by its name only, not by its type in Python."""

    def display_type_rich(self, ctx: Any) -> None:
        """Return nothing: the name tells what to give."""

    def get_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the name as the usage has it: ``NAME``, ``NAME...`` or ``[NAME]``."""
        name = self.metavar or (self.name or "").upper()
        name = name if self.nargs == 1 or name.endswith("...") else f"{name}..."
        return [name if self.required or name.startswith("[") else f"[{name}]"]


class Command(TyperCommand):
    """A command of ``llmprism``."""

    version: ClassVar[str] = f"llmprism {__version__}"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for one in self.params:
            if type(one) is TyperArgument:
                one.__class__ = PlainArgument  # typer makes its arguments itself

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; ``--version`` takes precedence over missing arguments."""
        answer_version(args, self.version)
        return super().parse_args(ctx, args)
