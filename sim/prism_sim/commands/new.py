"""Files to start from: a commented scenario, or a package with a method of diagnosis."""

from __future__ import annotations

import re
from pathlib import Path

from prism_common.errors import Problem, UserError

_TEMPLATE = Path(__file__).with_name("new.yaml")
_METHOD = Path(__file__).with_name("method")
_PACKAGE = {
    "pyproject.toml.txt": "pyproject.toml",
    "README.md.txt": "README.md",
    "__init__.py.txt": "MODULE/__init__.py",
    "test_method.py.txt": "tests/test_method.py",
}
"""Where each template of a method's package belongs; NAME and MODULE are replaced."""


def write_new(name: str, replace: bool) -> Path:
    """Write the template as ``name`` (``.yaml`` is added) and return its path.

    Raises
    ------
    UserError : the name is empty, or the file exists and ``replace`` is false.
    """
    if Path(name).name.strip() in ("", ".", ".."):
        raise UserError(Problem(f"{name!r} is not a file name", "", "write prism-sim new mine"))
    path = Path(name)
    path = path if path.suffix in (".yaml", ".yml") else path.with_name(f"{path.name}.yaml")
    if path.exists() and not replace:
        what = "the file exists"
        raise UserError(Problem(what, str(path), "choose another name, or add --force"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise UserError(Problem(f"cannot be written: {error.strerror}", str(path))) from error
    return path


def _columns() -> str:
    """The columns of every table that a method may return, a line for each table."""
    from llmprism.io.tables import DERIVED, DIAGNOSIS, MAY_BE_NULL

    lines = []
    for name, schema in DIAGNOSIS.items():
        marks = {
            **dict.fromkeys(DERIVED.get(name, ()), "?"),
            **dict.fromkeys(MAY_BE_NULL.get(name, ()), "*"),
        }
        columns = ", ".join(f"{one.name}{marks.get(one.name, '')} {one.type}" for one in schema)
        lines.append(f"- `{name}`: {columns}")
    return "\n".join(lines)


def write_method(name: str, replace: bool) -> Path:
    """Write a package with a method called ``name`` into a new folder; returns the folder.

    Raises
    ------
    UserError : the name is that of no package, or a file exists and ``replace`` is false.
    """
    folder = Path(name)
    called = folder.name
    if not re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", called):
        how = "use small letters, digits and -, such as prism-sim new --method my-method"
        raise UserError(Problem(f"{called!r} is not a name of a package", "", how))
    module = called.replace("-", "_")
    files = {
        folder / path.replace("MODULE", module): (_METHOD / template)
        .read_text(encoding="utf-8")
        .replace("MODULE", module)
        .replace("NAME", called)
        .replace("COLUMNS", _columns())
        for template, path in _PACKAGE.items()
    }
    there = [path for path in files if path.exists()]
    if there and not replace:
        how = "choose another name, or add --force"
        raise UserError(Problem("the file exists", str(path), how) for path in there)
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(Problem(f"cannot be written: {error.strerror}", name)) from error
    return folder
