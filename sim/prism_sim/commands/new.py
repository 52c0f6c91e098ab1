"""A first scenario: commented, valid, and small enough to run in seconds."""

from __future__ import annotations

from pathlib import Path

from llmprism.errors import Problem, UserError

_TEMPLATE = Path(__file__).with_name("new.yaml")


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
