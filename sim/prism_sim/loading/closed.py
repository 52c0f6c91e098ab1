"""Reads files of settings as strictly as scenarios: all errors, each with its line.

A suite, a study and a family are such files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from prism_common.errors import Problem, UserError
from prism_sim.scenario.base import Closed, Loc
from prism_sim.scenario.source import Source, read_source
from prism_sim.scenario.words import did_you_mean, in_yaml_words

M = TypeVar("M", bound=Closed)


def read_closed(path: Path, model: type[M]) -> tuple[M, Source]:
    """The ``model`` in the YAML file at ``path``, and the file with its lines.

    Raises
    ------
    UserError : with every problem found, each with its ``file:line``.
    """
    source = read_source(path)
    try:
        return model.model_validate(source.values), source
    except ValidationError as error:
        problems = [_problem(detail, model, source) for detail in error.errors()]
        raise UserError(dict.fromkeys(problems)) from None


def _problem(error: ErrorDetails, model: type[BaseModel], source: Source) -> Problem:
    loc = error["loc"]
    within = ".".join(str(part) for part in loc[:-1]) or "the file"
    word = _WORDS.get(error["type"], _value)
    what, how = word(error, within, _model_at(model, loc[:-1]))
    return Problem(what, source.place(loc), how)


def _unknown_key(error: ErrorDetails, within: str, model: type[BaseModel]) -> tuple[str, str]:
    key = str(error["loc"][-1])
    return f"unknown key {key!r} in {within}", did_you_mean(key, model.model_fields)


def _missing(error: ErrorDetails, within: str, model: type[BaseModel]) -> tuple[str, str]:
    key = str(error["loc"][-1])
    return f"{within} needs the key {key!r}", f"add {key}: {model.model_fields[key].description}"


def _value(error: ErrorDetails, within: str, model: type[BaseModel]) -> tuple[str, str]:
    key = ".".join(str(part) for part in error["loc"])
    message = in_yaml_words(error["msg"])
    field = model.model_fields.get(str(error["loc"][-1])) if error["loc"] else None
    how = f"{error['loc'][-1]}: {field.description}" if field else ""
    return f"{key or within} is {error['input']!r}, and {message}", how


_WORDS: dict[str, Callable[[ErrorDetails, str, type[BaseModel]], tuple[str, str]]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing,
}
"""The function that words an error of pydantic, by its type; others concern plain values."""


def _model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel]:
    """The innermost model on the path ``loc``; these files contain only lists of models."""
    for part in loc:
        field = model.model_fields.get(str(part)) if isinstance(part, str) else None
        inner = (field.annotation, *get_args(field.annotation)) if field else ()
        model = next((k for k in inner if isinstance(k, type) and issubclass(k, BaseModel)), model)
    return model
