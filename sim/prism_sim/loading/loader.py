"""Loads a file as a scenario, or reports every error in it.

Two kinds of errors are possible: a key or value is invalid (an unknown key, a word for a
number), or all are valid and the scenario is impossible (a job larger than the cluster). Both
kinds are reported together, each with its line, so that all can be corrected at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from prism_common.errors import Problem, UserError
from prism_sim.importers.reading import read_traces
from prism_sim.loading import checks
from prism_sim.loading.bundled import MANIFEST
from prism_sim.loading.complaints import problem_of
from prism_sim.loading.recovery import understood
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.base import Loc, Remark
from prism_sim.scenario.source import Source, parse_value, read_source
from prism_sim.scenario.words import dotted


@dataclass(frozen=True)
class Loaded:
    """A valid scenario and its warnings."""

    scenario: Scenario
    warnings: list[Problem]


def load(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Scenario:
    """Read the scenario at ``path``.

    Parameters
    ----------
    path : a YAML file, or the manifest of a run, whose scenario it is.
    overrides : values by dotted path (``{"jobs.0.dp": 4}``), set before validation.

    Raises
    ------
    UserError : with every problem found, each with its ``file:line``.
    """
    return load_with_warnings(path, overrides).scenario


def load_with_warnings(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Loaded:
    """Like :func:`load`, but with the warnings."""
    source = read_source(Path(path))
    if Path(path).name == MANIFEST:
        source = source.part("scenario")
    source.values.setdefault("name", Path(path).stem)
    source.override_all(overrides or {})
    return validate(source)


def validate(source: Source) -> Loaded:
    """Validate the values of ``source``: first each value, then the scenario as a whole.

    Traces that it names are read between the two. If one of them cannot be read, the second part is
    skipped, since sizes are missing.
    """
    traces = read_traces(source)
    unread = traces.problems
    try:
        scenario = Scenario.model_validate(source.values)
    except ValidationError as error:
        details = error.errors()
        problems = [problem_of(detail, source) for detail in details]
        rest = understood(source.values, details)
        if rest.scenario and not unread:
            remarks = rest.trusted(_remarks(rest.values, rest.scenario))
            problems += _placed(remarks, source)
        raise UserError(_in_order([*unread, *problems], source)) from None
    problems = unread or _placed(_remarks(source.values, scenario), source)
    if problems:
        raise UserError(_in_order(problems, source))
    return Loaded(scenario, [*traces.remarks, *_placed(checks.warnings(scenario), source)])


def parse_override(text: str) -> tuple[str, Any]:
    """Split ``path=value`` and read the value as YAML.

    >>> parse_override("jobs.0.dp=4")
    ('jobs.0.dp', 4)
    """
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UserError(Problem(f"{text!r} sets nothing", "--set", "write --set jobs.0.dp=4"))
    return path, parse_value(value, f"--set {path}")


def _remarks(values: dict[str, Any], scenario: Scenario) -> Iterator[Remark]:
    """Errors and warnings of ``scenario``, which was read from ``values``."""
    yield from _truth_for_numbers(values, scenario.model_dump(), ())
    yield from checks.errors(scenario)


def _placed(remarks: Iterable[Remark], source: Source) -> list[Problem]:
    return [Problem(r.what, source.place(r.loc), r.how) for r in remarks]


def _in_order(problems: list[Problem], source: Source) -> list[Problem]:
    """Problems without duplicates, in the order of the file; those of overrides last."""

    def position(problem: Problem) -> tuple[bool, int]:
        line = problem.where.removeprefix(f"{source.file}:")
        return (not line.isdecimal(), int(line) if line.isdecimal() else 0)

    return sorted(dict.fromkeys(problems), key=position)


def _truth_for_numbers(written: Any, read: Any, loc: Loc) -> Iterator[Remark]:
    """Values written as true or false but read as a number: Python treats True as 1."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key, value in written.items():
            yield from _truth_for_numbers(value, read.get(key), (*loc, key))
    elif isinstance(written, list) and isinstance(read, (list, tuple)):
        for index, (value, number) in enumerate(zip(written, read, strict=True)):
            yield from _truth_for_numbers(value, number, (*loc, index))
    elif isinstance(written, bool) and not isinstance(read, bool):
        yield Remark(loc, f"{dotted(loc)} is {str(written).lower()}; it must be a number")
