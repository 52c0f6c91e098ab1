"""Reads files of settings as strictly as scenarios: all errors, each with its line.

A suite, a study and a family are such files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from prism_common.errors import UserError
from prism_sim.loading.complaints import problem_of
from prism_sim.scenario.base import Closed
from prism_sim.scenario.source import Source, read_source

M = TypeVar("M", bound=Closed)


def read_closed(path: Path, model: type[M]) -> tuple[M, Source]:
    """The ``model`` in the YAML file at ``path``, and the file with its lines.

    Raises
    ------
    UserError : with every problem found, each with its ``file:line``.
    """
    source = read_source(path)
    return validated(model, source.values, source), source


def validated(model: type[M], values: Any, source: Source, context: Any = None) -> M:
    """The ``model`` with ``values`` of a file; a UserError as :func:`read_closed`."""
    try:
        return model.model_validate(values, context=context)
    except ValidationError as error:
        details = [one for one in error.errors() if not _follows(one)]
        raise UserError(dict.fromkeys(problem_of(one, source, model) for one in details)) from None


def _follows(error: ErrorDetails) -> bool:
    """Whether a list counts as empty only because of the errors of its items."""
    return error["type"] == "too_short" and bool(error["input"])
