"""Loads a file as a scenario, or reports every error in it.

Two kinds of errors are possible: a key or value is invalid (an unknown key, a word for a
number), or all are valid and the scenario is impossible (a job larger than the cluster). Both
kinds are reported together, each with its line, so that all can be corrected at once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from prism_common.errors import Problem, UserError
from prism_sim.importers import KINDS, TIMINGS
from prism_sim.loading import checks
from prism_sim.loading.bundled import MANIFEST
from prism_sim.loading.complaints import field_at, model_at, plain_loc, problem_of
from prism_sim.loading.foreign import own_name
from prism_sim.loading.scenario import Scenario
from prism_sim.scenario.base import Loc, Remark
from prism_sim.scenario.source import Source, parse_value, read_source
from prism_sim.scenario.words import dotted, nearest

_NEEDED = ("micro_batches", "steps")
"""Required keys of a job that a measured timeline provides."""


@dataclass
class Traces:
    """What reading the traces of a scenario gave: its problems, and remarks that are none."""

    problems: list[Problem] = field(default_factory=list)
    remarks: list[Problem] = field(default_factory=list)


def read_traces(source: Source) -> Traces:
    """Store the content of the traces of ``source`` next to their names.

    A trace whose content is already given is not read again. An ill-formed entry is not read
    either: its error is reported when the whole scenario is validated.
    """
    jobs = source.values.get("jobs")
    found = Traces()
    for index, job in enumerate(jobs if isinstance(jobs, list) else ()):
        if isinstance(job, dict) and isinstance(job.get("trace"), dict):
            _read(source, job, ("jobs", index, "trace"), found)
    return found


def _read(source: Source, job: dict[str, Any], at: Loc, found: Traces) -> None:
    written = job["trace"]
    kind = KINDS.get(written["kind"]) if isinstance(written.get("kind"), str) else None
    if kind is None:
        return
    try:
        trace = kind.model_validate(written)
    except ValidationError:
        return
    place = source.place((*at, "file"))

    def remark(what: str) -> None:
        found.remarks.append(Problem(what, place))

    content = getattr(trace, kind.content)
    try:
        if content is None:
            content = trace.read(source.folder / trace.file, remark)
        else:
            trace.verify(content)
    except UserError as error:
        if written["kind"] in TIMINGS:
            _fill(job, dict.fromkeys(_NEEDED, 1))
        found.problems += [Problem(f"{p.where}: {p.what}" if p.where else p.what, place, p.how)
                           for p in error.problems]  # fmt: skip
        return
    written[kind.content] = content
    _fill(job, trace.fills(content))


def _fill(job: dict[str, Any], values: dict[str, Any]) -> None:
    for key, value in values.items():
        job.setdefault(key, value)


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


# Checks of a scenario that is partly invalid.
#
# A misspelt key in one place should not hide that a job elsewhere is too large. So invalid
# parts are removed (unknown keys, ill-formed faults) or replaced by placeholders (ill-formed
# values), and the rest is checked as usual. Problems that depend on a removed or replaced value
# are not reported.

_STAND_INS: dict[Loc, Any] = {
    ("cluster",): {"servers": 65_536},
    ("cluster", "servers"): 65_536,
    ("jobs", "name"): "?",
    ("jobs", "model"): "llama-7b",
    ("jobs", "micro_batches"): 1_000_000,
    ("jobs", "steps"): 1_000_000_000,
}
"""Placeholders for keys without a default, so small that nothing is too large or too late."""


@dataclass(frozen=True)
class Understood:
    """The valid part of a scenario.

    Attributes
    ----------
    scenario : that part, with placeholders; None if too little is left.
    values : the values it was read from.
    doubtful : locations of removed and replaced values.
    fault_indices : for each fault of ``scenario``, its index in the file.
    """

    scenario: Scenario | None
    values: dict[str, Any]
    doubtful: frozenset[Loc]
    fault_indices: tuple[int, ...]

    def trusted(self, remarks: Iterable[Remark]) -> Iterator[Remark]:
        """The remarks that do not depend on doubtful values, with locations in the file."""
        for remark in remarks:
            loc = self._in_file(remark.loc)
            inside = any(_leads_to(bad, loc) for bad in self.doubtful)
            if not inside and not any(map(self._doubts, map(self._in_file, remark.reads))):
                yield Remark(loc, remark.what, remark.how)

    def _in_file(self, loc: Loc) -> Loc:
        match loc:
            case ("faults", int(index), *rest):
                return ("faults", self.fault_indices[index], *rest)
        return loc

    def _doubts(self, loc: Loc) -> bool:
        return any(_leads_to(bad, loc) or _leads_to(loc, bad) for bad in self.doubtful)


def _leads_to(above: Loc, below: Loc) -> bool:
    return below[: len(above)] == above


def understood(values: dict[str, Any], errors: list[ErrorDetails]) -> Understood:
    """Read the valid part of ``values``, given pydantic's errors."""
    corrected = copy.deepcopy(values)
    doubtful: set[Loc] = set()
    for error in errors:
        if error["loc"][:1] != ("faults",):
            doubtful.add(_correct(corrected, values, error))
    kept = _well_formed_faults(values, errors)
    corrected["faults"] = [values["faults"][index] for index in kept]
    try:
        scenario = Scenario.model_validate(corrected)
    except ValidationError:
        return Understood(None, {}, frozenset(), ())
    return Understood(scenario, corrected, frozenset(doubtful), kept)


def _well_formed_faults(values: dict[str, Any], errors: list[ErrorDetails]) -> tuple[int, ...]:
    faults = values.get("faults")
    bad = {error["loc"][1] for error in errors if error["loc"][:1] == ("faults",) != error["loc"]}
    every = range(len(faults)) if isinstance(faults, list) else ()
    return tuple(index for index in every if index not in bad)


def _correct(corrected: dict[str, Any], values: dict[str, Any], error: ErrorDetails) -> Loc:
    """Remove or replace the value of ``error``; returns the location that is now doubtful."""
    if error["type"] == "extra_forbidden":
        loc = plain_loc(error["loc"], values)
        _holder(corrected, loc).pop(loc[-1], None)
        model = model_at(error["loc"][:-1])
        own = own_name(str(loc[-1]))
        meant = own[0] if own else nearest(str(loc[-1]), model.model_fields if model else ())
        return (*loc[:-1], meant or loc[-1])
    for length in range(len(error["loc"]), 0, -1):
        loc = plain_loc(error["loc"][:length], values)
        field = field_at(error["loc"][:length])
        shape = tuple(part for part in loc if isinstance(part, str))
        if shape in _STAND_INS:
            _holder(corrected, loc)[loc[-1]] = copy.deepcopy(_STAND_INS[shape])
            return loc
        if field and not field.is_required():
            _holder(corrected, loc).pop(loc[-1], None)
            return loc
    return ()


def _holder(corrected: Any, loc: Loc) -> dict[Any, Any]:
    """The container of ``loc``; an empty one if it was replaced before."""
    for part in loc[:-1]:
        if (isinstance(corrected, dict) and part not in corrected) or isinstance(corrected, str):
            return {}
        corrected = corrected[part]
    return corrected if isinstance(corrected, dict) else {}
