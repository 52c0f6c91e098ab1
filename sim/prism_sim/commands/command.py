"""Commands that accept ``--version`` anywhere on the command line."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from prism_sim.version import __version__


def _answer_version(arguments: list[str]) -> None:
    """Print the version and exit, if ``--version`` is among the arguments."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--version" in options:
        print(f"prism-sim {__version__}")
        raise typer.Exit(0)


class Command(TyperCommand):
    """A command of ``prism-sim``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; ``--version`` takes precedence over missing arguments."""
        _answer_version(args)
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """A group of commands of ``prism-sim``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; ``--version`` takes precedence over missing arguments."""
        _answer_version(args)
        return super().parse_args(ctx, args)
