"""Measured figures of methods of diagnosis, from a file, in place of numbers in a study.

A study names the file once (``measured: measured.json``), and a part of a policy names a method
(``{kind: diagnoser, measured: prism}``). The part then has those figures of the method that it
knows; numbers beside it have priority.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo, model_validator

from prism_common.errors import Problem, UserError
from prism_sim.scenario.base import Closed

Figures = Mapping[str, Mapping[str, float]]
"""The figures of each method: by its name, and then by the name of a field."""


class Measurable(Closed):
    """A part of a study whose figures may be those of a method."""

    @model_validator(mode="before")
    @classmethod
    def _read(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, dict) or "measured" not in values:
            return values
        known: Figures = info.context or {}
        given = dict(values)
        name = given.pop("measured")
        if name not in known:
            there = ", ".join(known) or "none; name a file at the top of the study, measured: FILE"
            raise ValueError(f"no figures of {name!r} were measured; known: {there}")
        figures = {key: value for key, value in known[name].items() if key in cls.model_fields}
        if not figures:
            raise ValueError(f"of {name!r}, no figure of this part was measured")
        return figures | given


def read_figures(path: Path, where: str) -> Figures:
    """The figures in the JSON file at ``path``, which the study names at ``where``.

    Raises
    ------
    UserError : there is no such file, or it has other contents.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(Problem(f"there is no file {path}", where)) from None
    except ValueError as error:
        raise UserError(Problem(f"not valid JSON: {error}", str(path))) from None
    if not isinstance(content, dict) or not all(isinstance(one, dict) for one in content.values()):
        raise UserError(Problem("this is no object with the figures of each method", str(path)))
    return content
