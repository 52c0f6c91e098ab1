"""Methods of diagnosis, by name.

A *method* is a callable that turns flows and topology into the tables of
:mod:`llmprism.io.tables`; see :class:`~llmprism.methods.base.Method`. Registering one makes it
available to ``diagnose(..., method=name)`` and to the command line:

>>> @register("empty")
... def nothing(flows, topology, progress):
...     return {}
>>> get("empty") is nothing
True
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

from llmprism.errors import Problem, UserError
from llmprism.methods.base import Method

M = TypeVar("M", bound=Method)
_OWN = ("paper", "prism")  # modules of this package that register themselves when imported
_methods: dict[str, Method] = {}


def register(name: str) -> Callable[[M], M]:
    """Make a method known as ``name``; a later registration replaces an earlier one."""

    def keep(method: M) -> M:
        _methods[name] = method
        return method

    return keep


def names() -> list[str]:
    """Return the names of all methods, sorted."""
    _import_own()
    return sorted(_methods)


def get(name: str) -> Method:
    """Return a method by name; an unknown name is a :class:`UserError` that lists them."""
    _import_own()
    if name not in _methods:
        known = ", ".join(sorted(_methods))
        raise UserError(Problem(f"there is no method {name!r}", "--method", f"known: {known}"))
    return _methods[name]


def _import_own() -> None:
    for module in _OWN:
        import_module(f"{__name__}.{module}")
