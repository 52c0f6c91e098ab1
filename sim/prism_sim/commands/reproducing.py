"""``prism-sim reproduce``: repeats a publication's evaluation on simulated clusters.

The programs themselves are in the folder ``reproduction/`` of a checkout; wheels do not contain
them. Each has its own command line, which receives all arguments.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import typer

from prism_common.errors import Problem, UserError
from prism_sim.commands.command import Command, Group
from prism_sim.commands.session import open_session
from prism_sim.version import PACKAGE

PROGRAM = "reproduction"
"""Package of the program, at the top of a checkout."""

reproduce = typer.Typer(cls=Group, help="Repeat a publication's evaluation.", no_args_is_help=True)


@reproduce.command(
    cls=Command,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def paper(context: typer.Context) -> None:
    """LLMPrism (arXiv 2505.00342); resumes where it stopped."""
    with open_session(as_json=False, quiet=False, debug=False):
        program = _program(checkout())
    program.app(context.args, prog_name=context.command_path)


def checkout() -> Path:
    """The top folder of the checkout, if this package runs from one."""
    return PACKAGE.resolve().parents[1]


def _program(top: Path) -> ModuleType:
    if not (top / PROGRAM / "__main__.py").is_file():
        what = "the reproduction of the paper is not part of the installed package"
        how = f"it is in {PROGRAM}/ of the project's source: run `make paper` in a checkout"
        raise UserError(Problem(what, "reproduce paper", how))
    if str(top) not in sys.path:
        sys.path.insert(0, str(top))
    return importlib.import_module(f"{PROGRAM}.command")
