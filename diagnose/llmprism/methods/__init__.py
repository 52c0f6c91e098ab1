"""Methods of diagnosis, by name.

A *method* is a callable that turns flows and topology into the tables of
:mod:`llmprism.io.tables`; see :class:`~llmprism.methods.base.Method`. There are three kinds:

- methods of this package, and those that a program registers while it runs, are called directly;
- methods that an installed package registers in the group of entry points ``llmprism.methods``,
- and ``package.module:object``, any importable callable,

are *foreign*: nothing is imported here, and they run in a process of their own
(:mod:`llmprism.isolation`).

>>> @register("empty")
... def nothing(flows, topology, progress):
...     return {}
>>> get("empty") is nothing
True
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar, cast

import numpy as np

from llmprism.io.topology import Topology
from llmprism.io.volumes import JoiningPairs, PairVolumes
from llmprism.methods.base import Method
from llmprism.numerics.arrays import Bools
from prism_common.errors import Problem, UserError

M = TypeVar("M", bound=Method)
GROUP = "llmprism.methods"
OWN = {
    "paper": "paper",
    "prism": "prism",
    "null": "rivals",
    "autocorrelation": "rivals",
    "changepoints": "rivals",
}
"""Methods of this package, and the module of each, which registers it when it is imported."""

_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
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
    return sorted({*OWN, *_methods, *installed()})


def installed() -> dict[str, str]:
    """Methods of installed packages, and where each is (``package.module:object``).

    A name that this package uses keeps its meaning.
    """
    found = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    return {name: found[name] for name in sorted(found) if not _is_near(name)}


def is_foreign(name: str) -> bool:
    """Whether ``name`` is a method of another package, which runs in a process of its own."""
    return not _is_near(name) and bool(reference_of(name))


def _is_near(name: str) -> bool:
    """Whether ``name`` is a method of this package, or one that this program registered."""
    return name in OWN or name in _methods


def reference_of(name: str) -> str:
    """Where a foreign method is, as ``package.module:object``; empty for an unknown name."""
    return installed().get(name) or (name if _REFERENCE.fullmatch(name) else "")


def check(name: str) -> None:
    """Refuse an unknown method, without importing code of others.

    Raises
    ------
    UserError : there is no such method, or no module or package that it could be in.
    """
    if not is_foreign(name):
        get(name)
        return
    if not files_of(name):
        top = _top_of(name)
        what = f"there is no module or package {top!r} for the method {name!r}"
        raise UserError(Problem(what, "--method", "install it, or work in the folder it is in"))


def files_of(name: str) -> list[Path]:
    """The folder of the package that a foreign method is in, or the file of its module.

    It is searched as in the process of the method: in the present folder first. A method of this
    process has none.
    """
    if not is_foreign(name):
        return []
    top = _top_of(name)
    spec = PathFinder.find_spec(top, [os.getcwd(), *sys.path]) or find_spec(top)
    if spec is None:
        return []
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    return folders or [Path(spec.origin or "")]


def _top_of(name: str) -> str:
    return reference_of(name).partition(":")[0].partition(".")[0]


def get(name: str) -> Method:
    """Return a method of this process by name; an unknown one is a UserError that lists all."""
    _import_own()
    if name not in _methods:
        how = f"known: {', '.join(names())}; or name any callable as package.module:object"
        raise UserError(Problem(f"there is no method {name!r}", "--method", how))
    return _methods[name]


def load(name: str) -> Method:
    """Return any method, and import it if it is foreign."""
    if not is_foreign(name):
        return get(name)
    module, _, path = reference_of(name).partition(":")
    return cast(Method, reduce(getattr, path.split("."), import_module(module)))


def module_of(name: str) -> str:
    """Return the module of a method of this package."""
    return f"{__name__}.{OWN[name]}"


def joining(name: str) -> JoiningPairs:
    """Return what joins pairs for the method ``name``, which exists."""
    return _joining[name]


def _import_own() -> None:
    for name in OWN:
        import_module(module_of(name))
