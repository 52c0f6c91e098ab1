"""Reads a study of operations, or reports every error in it with its line."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

from prism_common.errors import Problem, UserError
from prism_sim.loading.closed import validated
from prism_sim.operations.measured import Figures, read_figures
from prism_sim.operations.study import Study
from prism_sim.operations.sweep import Point, spelled_out
from prism_sim.scenario.source import Source, read_source
from prism_sim.studies.reading import known_methods, scenario_at


def read_operations(path: Path) -> Study:
    """The study in the YAML file at ``path``.

    Raises
    ------
    UserError : with every problem found, each with its ``file:line``.
    """
    source = read_source(path)
    study = validated(Study, source.values, source, _measured(source))
    study = _with_points(_with_scenario(_with_outages(study, source), source), source)
    if unmet := [Problem(why, source.place(loc)) for loc, why in study.unmet()]:
        raise UserError(unmet)
    return study


def _measured(source: Source) -> Figures:
    """The figures of methods in the file that the study names."""
    name = source.values.get("measured")
    if not isinstance(name, str):
        return {}
    return read_figures(source.folder / name, source.place(("measured",)))


def _with_outages(study: Study, source: Source) -> Study:
    """The study with the outages of its trace, if it has one."""
    trace = study.failures.trace
    if trace is None:
        return study
    path = source.folder / trace.file
    if not path.is_file():
        where = source.place(("failures", "trace", "file"))
        raise UserError(Problem(f"there is no trace {path}", where))
    failures = study.failures.model_copy(update={"outages": trace.read(path)})
    return study.model_copy(update={"failures": failures})


def _with_points(study: Study, source: Source) -> Study:
    """The study with the studies of its sweep, if it has one."""
    sweep, alone = study.sweep, {"sweep": None, "worth": None, "windows": None}
    if sweep is None:
        return study
    document = {key: value for key, value in source.values.items() if key not in alone}
    points = []
    for values in sweep.combinations():
        varied = Source(source.file, deepcopy(document))
        try:
            varied.override_all(spelled_out(values, document))
            made = validated(Study, varied.values, source, _measured(source))
        except UserError as error:
            named = ", ".join(f"{key} {value}" for key, value in values.items())
            place = source.place(("sweep", "over"))
            problems = (Problem(f"with {named}: {p.what}", place, p.how) for p in error.problems)
            raise UserError(dict.fromkeys(problems)) from None
        points.append(Point(values=values, study=_with_outages(made, source)))
    return study.model_copy(update={"sweep": sweep.model_copy(update={"points": tuple(points)})})


def _with_scenario(study: Study, source: Source) -> Study:
    """The study with the scenario of its windows, if it has some."""
    windows = study.windows
    if windows is None:
        return study
    try:
        known_methods([windows.method])
    except UserError as error:
        where = source.place(("windows", "method"))
        raise UserError(Problem(p.what, where, p.how) for p in error.problems) from None
    scenario = scenario_at(windows.scenario, source.folder, {}, source, ("windows",))
    return study.model_copy(update={"windows": windows.model_copy(update={"loaded": scenario})})
