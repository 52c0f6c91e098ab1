"""Commands that accept ``--version`` anywhere on the command line."""

from __future__ import annotations

from typing import Any, ClassVar

from typer.core import TyperGroup

from prism_common.command import Command as PlainCommand
from prism_common.command import answer_version
from prism_sim.version import __version__

_VERSION = f"prism-sim {__version__}"


class Command(PlainCommand):
    """A command of ``prism-sim``."""

    version: ClassVar[str] = _VERSION


class Group(TyperGroup):
    """A group of commands of ``prism-sim``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; ``--version`` takes precedence over missing arguments."""
        answer_version(args, _VERSION)
        return super().parse_args(ctx, args)
