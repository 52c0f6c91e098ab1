"""Reads the scenarios that suites and studies name, and checks the methods that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prism_common.errors import Problem, UserError
from prism_sim.loading.loader import load
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.base import Loc
from prism_sim.scenario.source import Source


def scenario_at(
    name: str, beside: Path, overrides: Mapping[str, Any], source: Source, loc: Loc
) -> Scenario:
    """The scenario called ``name`` in a file at ``beside``, with changes.

    ``name`` is a path relative to that folder or to the current one, or a bundled scenario. Errors
    of ``overrides`` are reported at ``loc`` of ``source``.
    """
    from prism_sim.loading.bundled import find

    near = beside / name
    try:
        path = near if near.is_file() else find(name)
    except UserError as error:
        place = source.place((*loc, "scenario"))
        raise UserError(Problem(p.what, place, p.how) for p in error.problems) from None
    try:
        return load(path, overrides)
    except UserError as error:
        raise UserError(_placed(error.problems, source, loc)) from None


def _placed(problems: Iterable[Problem], source: Source, loc: Loc) -> Iterable[Problem]:
    """Problems with overrides, at the line of the override."""
    for problem in problems:
        path = problem.where.removeprefix("--set ")
        lines = (
            place
            for at, place in source.places.items()
            if at[: len(loc)] == loc and at[-1:] == (path,) and len(at) > len(loc) + 1
        )
        yield Problem(problem.what, next(lines, problem.where), problem.how)


def known_methods(names: Iterable[str], allowed: Iterable[str] = ()) -> None:
    """Refuse unknown methods.

    ``allowed`` are further valid names.
    """
    from llmprism import methods

    for name in set(names) - set(allowed):
        methods.check(name)
