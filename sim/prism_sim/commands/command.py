"""Commands that accept ``--version`` anywhere on the command line."""

from __future__ import annotations

from typing import ClassVar

from prism_common import command
from prism_sim.version import __version__

_VERSION = f"prism-sim {__version__}"


class Command(command.Command):
    """A command of ``prism-sim``."""

    version: ClassVar[str] = _VERSION


class Group(command.Group):
    """The commands of ``prism-sim``."""

    version: ClassVar[str] = _VERSION
