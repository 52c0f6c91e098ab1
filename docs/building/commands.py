"""The reference of the command lines, from the commands themselves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer

from docs.building.text import cell
from prism_sim.render.markdown import table

PROGRAMS = {"prism-sim": "prism_sim.cli", "llmprism": "llmprism.cli", "llmlog": "llmlog.cli"}
"""The module of each program."""


def reference(program: str) -> str:
    """Every command of a program: what it does, its arguments and its options."""
    command = typer.main.get_command(import_module(PROGRAMS[program]).app)
    return "\n".join(_lines(command, typer.Context(command, info_name=program), 2))


def _lines(command: Any, context: Any, level: int) -> Iterator[str]:
    title = context.command_path
    yield f"{'#' * level} {title}\n"
    yield f"{_paragraphs(command.help or '')}\n"
    commands = command.list_commands(context) if hasattr(command, "list_commands") else []
    if not commands:
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```text\n{title} {usage}\n```\n"
    rows = [_row(param, context) for param in command.get_params(context) if not _hidden(param)]
    if rows:
        yield f"{table(('argument or option', 'meaning'), rows)}\n"
    for name in commands:
        inner = command.get_command(context, name)
        if not inner.hidden:
            yield from _lines(inner, typer.Context(inner, info_name=name, parent=context), 3)


def _paragraphs(text: str) -> str:
    """The paragraphs of a help text, each in one line."""
    parts = textwrap.dedent(text).strip().split("\n\n")
    return "\n\n".join(cell(" ".join(part.split())) for part in parts)


def _hidden(param: Any) -> bool:
    return bool(getattr(param, "hidden", False)) or "--help" in param.opts


def _row(param: Any, context: Any) -> tuple[str, str]:
    record = param.get_help_record(context)
    names, about = record if record else (param.metavar or param.name.upper(), "")
    if param.param_type_name != "option":
        names = param.metavar or param.name.upper()
    return f"`{names}`", cell(about)
