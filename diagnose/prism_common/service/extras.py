"""Modules that need packages of an extra: what is missing is an error with its remedy."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from prism_common.errors import Problem, UserError


def with_monitor(module: str, asked_by: str = "") -> ModuleType:
    """A module that needs the packages of the extra ``monitor``; ``asked_by`` is an option.

    Raises
    ------
    UserError : a package is missing.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        what, how = f"the package {error.name} is missing", "pip install 'llmprism[monitor]'"
        raise UserError(Problem(what, asked_by, how)) from error
