"""Short hashes of the code that a result depends on: this project's, and that of a method.

A saved result is reused only if the same code would compute it again. So its key covers the
sources of this project and, if the method of diagnosis comes from another package, the sources
and the version of that package. If a method's source cannot be read, equality cannot be proved,
and results of other processes are not reused.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import llmprism
import prism_common
from prism_common.version import code_of
from prism_sim.version import PACKAGE

_OURS = ("prism_sim", "llmprism", "prism_common")
_CODE = (".py", ".pyx", ".so", ".pyd")
_UNKNOWN = f"unknown-{uuid.uuid4().hex}"  # differs in every process


@cache
def fingerprint(without: tuple[str, ...] = ()) -> str:
    """Version of this project, and a hash of its sources.

    ``without`` names files and folders at the top of a package that are excluded.
    """
    shared = (Path(str(package.__file__)).parent for package in (llmprism, prism_common))
    return code_of([PACKAGE, *shared], without)


def method_fingerprint(name: str) -> str:
    """Hash of the code and settings of the method ``name`` that is not part of this project.

    The hash covers the module that defines the method (or a part of it), its whole package
    with its version, and modules in the same folder that it imports. Of a method that runs in a
    process of its own, it covers the package, or the Python files beside its module.
    """
    from llmprism import methods

    if methods.is_foreign(name):
        top = methods.reference_of(name).partition(":")[0].partition(".")[0]
        content = f"{methods.reference_of(name)} {_version(top)} {_hash_of(_code_of(name))}"
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    parts = list(_parts(methods.get(name)))
    modules = {str(part.__module__) for part in parts if hasattr(part, "__module__")}
    settings = [repr(part) for part in parts if isinstance(part, (str, int, float))]
    digest = hashlib.blake2b("\n".join(settings).encode(), digest_size=8)
    for module in sorted(_foreign(modules)):
        digest.update(f"{module} {_version(module)} {_sources(module)}".encode())
    return digest.hexdigest()


def _parts(thing: Any, depth: int = 0) -> Iterator[Any]:
    """A method, its type, and all its parts."""
    yield thing
    if depth > 4 or isinstance(thing, (str, int, float, type, ModuleType)):
        return
    yield type(thing)
    inner: list[Any] = [getattr(thing, "__wrapped__", None)]
    if isinstance(thing, partial):
        inner += [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, (list, tuple)):
        inner += thing
    elif isinstance(thing, dict):
        inner += thing.values()
    elif is_dataclass(thing):
        inner += [getattr(thing, field.name) for field in fields(thing)]
    elif hasattr(thing, "__dict__"):
        inner += vars(thing).values()
    for part in inner:
        if part is not None:
            yield from _parts(part, depth + 1)


def _foreign(modules: Iterable[str]) -> set[str]:
    """Those of ``modules`` that belong neither to us nor to Python, and modules next to them."""
    found: set[str] = set()
    ahead = [name for name in modules if _is_foreign(name)]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += [other for other in _beside(name) if _is_foreign(other)]
    return found


def _is_foreign(module: str) -> bool:
    return module.split(".")[0] not in (*_OURS, *sys.stdlib_module_names) or module == "__main__"


def _beside(name: str) -> Iterator[str]:
    """Modules in the same folder that the module ``name`` uses."""
    module = sys.modules.get(name)
    folder = _folder(module)
    for value in list(vars(module).values()) if module else []:
        other = value.__name__ if isinstance(value, ModuleType) else _module_of(value)
        if other and folder and _folder(sys.modules.get(other)) == folder:
            yield other


def _module_of(value: Any) -> str | None:
    found = getattr(value, "__module__", None)
    return found if isinstance(found, str) else None


def _folder(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).parent if file else None


@cache
def _version(module: str) -> str:
    """Version of the distribution that a module belongs to; empty if none is installed."""
    names = importlib.metadata.packages_distributions().get(module.split(".")[0], [])
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in sorted(set(names)))


@cache
def _sources(module: str) -> str:
    """Hash of a module's file, or of all code of its package."""
    top = sys.modules.get(module.split(".")[0])
    folders = [Path(folder) for folder in getattr(top, "__path__", [])]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in _CODE]
    if not folders and getattr(top, "__file__", None):
        files = [Path(str(getattr(top, "__file__", "")))]
    return _hash_of(files)


def _code_of(foreign: str) -> list[Path]:
    """Files of the package of a foreign method; those beside its module if it has no package."""
    from llmprism import methods

    places = methods.files_of(foreign)
    folders = [place for place in places if place.is_dir()]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in _CODE]
    beside = [path for place in places if place.is_file() for path in place.parent.glob("*.py")]
    return files + beside


def _hash_of(files: list[Path]) -> str:
    """Hash of the names and contents of ``files``; never the same twice without files."""
    if not files:
        return _UNKNOWN
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(files):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
