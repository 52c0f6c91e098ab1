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

import numpy as np

from llmprism.errors import Problem, UserError
from llmprism.io.topology import Topology
from llmprism.io.volumes import JoiningPairs, PairVolumes
from llmprism.methods.base import Method
from llmprism.numerics.arrays import Bools

M = TypeVar("M", bound=Method)
_OWN = ("paper", "prism")  # modules of this package that register themselves when imported
_methods: dict[str, Method] = {}
_joining: dict[str, JoiningPairs] = {}


def every_pair(volumes: PairVolumes, _topology: Topology) -> Bools:
    """Join all endpoints that exchange anything."""
    return np.ones(volumes.src.size, np.bool_)


def register(name: str, joining: JoiningPairs = every_pair) -> Callable[[M], M]:
    """Make a method known as ``name``; a later registration replaces an earlier one.

    ``joining`` says which pairs have to be diagnosed together, if a file is diagnosed in batches.
    """

    def keep(method: M) -> M:
        _methods[name] = method
        _joining[name] = joining
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


def joining(name: str) -> JoiningPairs:
    """Return what joins pairs for the method ``name``, which exists."""
    return _joining[name]


def _import_own() -> None:
    for module in _OWN:
        import_module(f"{__name__}.{module}")
