"""Commands of all programs: what all of them take, and help without types of the language.

``--version`` is answered anywhere on a command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from prism_common.escapes import printable
from prism_common.program import is_memory_error
from prism_common.version import __version__

PLAIN_WIDTH = 80  # columns if the output is not a terminal
SETTINGS = {"help_option_names": ["-h", "--help"]}

Tables = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Folder for the tables, as Parquet.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print results as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only results and errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]
Version = Annotated[bool, typer.Option("--version", help="Print the version and exit.")]
""":class:`Command` and :class:`Group` answer it."""


def option(metavar: str, about: str, *names: str, **more: Any) -> Any:
    """An option with a value; ``names`` if that of the parameter does not do."""
    return typer.Option(*names, metavar=metavar, help=about, **more)


def new_app(**settings: Any) -> typer.Typer:
    """A command line without commands yet, whose help and errors are plain text."""
    return typer.Typer(
        **settings,
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
    """Print what the user can correct in a line each, and exit 1."""
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
        typer.echo(f"error: {printable(f'{where}{error.strerror or error}')}", err=True)
        raise typer.Exit(1) from None


class Command(TyperCommand):
    """A command; a program of another distribution sets another ``version``."""

    version: ClassVar[str] = f"llmprism {__version__}"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; ``--version`` takes precedence over missing arguments."""
        answer_version(args, self.version)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage; arguments as ``NAME``, ``NAME...`` or ``[NAME]``."""
        names = [
            name if param.required or name.startswith("[") else f"[{name}]"
            for param, name in self._arguments(ctx)
        ]
        return [self.options_metavar or "", *names]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write what arguments and options mean; arguments without their types in Python."""
        arguments = [(name, param.get_help_record(ctx)) for param, name in self._arguments(ctx)]
        options = [it.get_help_record(ctx) for it in self.get_params(ctx) if _is_option(it)]
        for title, rows in (
            ("Arguments", [(name, record[1]) for name, record in arguments if record]),
            ("Options", [record for record in options if record]),
        ):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _arguments(self, ctx: Any) -> Iterator[tuple[Any, str]]:
        """Every argument and its name: what it was called, or its name in Python."""
        for param in self.get_params(ctx):
            if not _is_option(param):
                name = param.metavar or (param.name or "").upper()
                yield param, name if param.nargs == 1 or name.endswith("...") else f"{name}..."


def _is_option(param: Any) -> bool:
    return bool(param.param_type_name == "option")


class Group(TyperGroup):
    """A group of commands, of which some may be imported only when they are needed.

    Attributes
    ----------
    version : what ``--version`` prints.
    elsewhere : commands that are typer applications of one command, as ``module:application``.
    default : the command that is meant if the first word is none; None: it must be one.
    """

    version: ClassVar[str] = f"llmprism {__version__}"
    elsewhere: ClassVar[Mapping[str, str]] = {}
    default: ClassVar[str | None] = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; ``--version`` takes precedence over missing arguments."""
        answer_version(args, self.version)
        known = {*self.list_commands(ctx), *SETTINGS["help_option_names"]}
        if self.default is not None and args and args[0] not in known:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands, those of this module first."""
        return [*super().list_commands(ctx), *self.elsewhere]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None if there is none."""
        if cmd_name not in self.elsewhere:
            return super().get_command(ctx, cmd_name)
        module, _, application = self.elsewhere[cmd_name].partition(":")
        return typer.main.get_command(getattr(import_module(module), application))
