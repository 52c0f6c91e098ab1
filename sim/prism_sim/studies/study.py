"""The model of a study: places of a scenario to run, seeds, methods, and figures to collect."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from prism_common.errors import Problem, UserError
from prism_sim.loading.closed import read_closed
from prism_sim.scenario.base import Closed
from prism_sim.scenario.source import Source
from prism_sim.scenario.words import did_you_mean
from prism_sim.studies.cases import CATALOGUE, SIMULATED_ONLY, TRUTH_FIGURES, RunCase
from prism_sim.studies.designs import (
    Design,
    Grid,
    LatinHypercube,
    Place,
    PlaceList,
    RandomDesign,
    Variants,
)
from prism_sim.studies.reading import known_methods, scenario_at

METHOD, SEED, ERROR, KEY = "method", "seed", "error", "key"
"""Columns of every table of a study."""


class Study(Closed):
    """A base scenario, the places to run, and the figures to collect at each."""

    description: str = Field(default="", description="The question; title of the figure.")
    scenario: str = Field(description="The base: a file, relative to the study, or a bundled one.")
    set: dict[str, Any] = Field(default={})
    """Values by dotted path, set in the base at every place."""
    variants: Variants | None = None
    """Names, and for each the values by dotted path; the table has the names."""
    list: PlaceList | None = None
    """Places one by one: for each its values by dotted path."""
    grid: Grid = Grid({})
    """Dotted paths and the values of each; all combinations."""
    random: RandomDesign | None = None
    """Places drawn at random: samples, and `over`: path and range."""
    latin_hypercube: LatinHypercube | None = None
    """Places drawn so that they cover every range evenly."""
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1, description="Seeds of each place.")
    methods: tuple[str, ...] = Field(default=("paper",), min_length=1)
    """Methods of diagnosis; none: the simulation alone."""
    figures: tuple[str, ...] = Field(min_length=1)
    """Figures to keep: paths in score.json, such as pairs.accuracy, or figures of the simulation,
    such as truth.step_s_mean."""
    labels: dict[str, str] = Field(default={})
    """Labels in the picture of paths and figures, including units."""
    x: str | None = None
    """What the picture has on its x axis: a path, a figure, variant or method. Left out: the first
    path of the grid, otherwise the first column of the table."""
    x_scale: Literal["linear", "log"] = "linear"
    """Scale of the x axis of the picture."""
    processes: int | None = Field(default=None, ge=1)
    """Parallel runs. Left out: one per processor core."""

    @property
    def designs(self) -> tuple[Design, ...]:
        """The designs of the study; later ones change the values of earlier ones."""
        fields = (getattr(self, name) for name in type(self).model_fields)
        return tuple(field for field in fields if isinstance(field, Design))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table that describe a place."""
        return tuple(column for design in self.designs for column in design.columns)

    @property
    def collected(self) -> tuple[str, ...]:
        """The figures, and that of the x axis."""
        is_figure = self.x not in (None, METHOD, SEED, *self.columns, *self.figures)
        return (*self.figures, str(self.x)) if is_figure else self.figures

    @property
    def axis(self) -> str:
        """The column on the x axis."""
        return self.x or next(iter((*self.grid.columns, *self.columns)), METHOD)


MANY = 10_000
"""A study of more runs than this needs a confirmation by the user."""


@dataclass(frozen=True)
class Point:
    """One run of a study.

    Attributes
    ----------
    at : the value of each column that describes its place.
    case : the run; None if the scenario is invalid there, with the reason in ``refused``.
    """

    at: dict[str, Any]
    seed: int
    method: str
    case: RunCase | None = None
    refused: str | None = None


def read_study(path: Path) -> tuple[Study, Source]:
    """The study at ``path``; a UserError with every problem and its line."""
    study, source = read_closed(path, Study)
    known_methods(study.methods, [SIMULATED_ONLY])
    problems = [*_wrong_columns(study, source), *_unknown_figures(study, source)]
    if problems:
        raise UserError(problems)
    return study, source


def _wrong_columns(study: Study, source: Source) -> Iterator[Problem]:
    """Columns that two designs fill, or that every table has."""
    how = "give each path in one place only; seeds and methods have keys of their own"
    for column in sorted(set(study.columns)):
        if study.columns.count(column) > 1 or column in (METHOD, SEED, ERROR, KEY):
            yield Problem(f"the study varies {column!r} twice", source.file, how)


def _unknown_figures(study: Study, source: Source) -> Iterator[Problem]:
    """Names of figures that no run can have, found before anything runs.

    A study without a diagnosis has the figures of the simulation only.
    """
    scored = any(method != SIMULATED_ONLY for method in study.methods)
    catalogue = CATALOGUE if scored else TRUTH_FIGURES
    for name in study.collected:
        if catalogue.find(name) is None:
            known, place = catalogue.paths(), source.place(("x",))
            if name in study.figures:
                place = source.place(("figures", study.figures.index(name)))
            else:
                known += [*study.columns, METHOD]
            yield Problem(f"no run has a figure {name!r}", place, did_you_mean(name, known))


def runs_of(study: Study) -> int:
    """Number of runs of ``study``."""
    places = math.prod(design.size for design in study.designs)
    return places * len(study.seeds) * len(study.methods)


def places_of(study: Study) -> Iterator[Place]:
    """All combinations of the places of the study's designs, one by one."""
    yield from _combined(study.designs)


def _combined(designs: tuple[Design, ...]) -> Iterator[Place]:
    if not designs:
        yield Place({}, {})
        return
    for first in designs[0].places():
        for rest in _combined(designs[1:]):
            yield Place(first.at | rest.at, first.settings | rest.settings)


def points_of(study: Study, source: Source) -> Iterator[Point]:
    """Every run of ``study``, in the order of its designs, one by one.

    A place where the scenario is invalid is a refused point.

    Raises
    ------
    UserError : a figure is about a job that the scenario does not have; or, at the end, all points
        are invalid. It has all problems, at the lines of the study.
    """
    problems: dict[Problem, None] = {}
    possible = False
    for place in places_of(study):
        for seed, method in itertools.product(study.seeds, study.methods):
            try:
                case = _case(study, source, place, seed, method)
            except UserError as error:
                problems |= {} if possible else dict.fromkeys(error.problems)
                yield Point(place.at, seed, method, refused=str(error))
            else:
                if not possible:
                    _check_jobs(study, source, case)
                possible = True
                yield Point(place.at, seed, method, case)
    if not possible:
        raise UserError(problems)


def _case(study: Study, source: Source, place: Place, seed: int, method: str) -> RunCase:
    overrides = {**study.set, **place.settings, "seed": seed}
    scenario = scenario_at(study.scenario, Path(source.file).parent, overrides, source, ())
    where = [f"{column}={value}" for column, value in place.at.items()]
    return RunCase(", ".join([*where, f"seed {seed}", method]), scenario, method)


_OTHER_JOBS = re.compile(r"jobs(\.\d+(\.name)?)?")
"""Paths that change which jobs there are."""


def _check_jobs(study: Study, source: Source, case: RunCase) -> None:
    """Refuse figures of jobs that the scenario does not have, unless places change the jobs."""
    paths = {path for place in itertools.islice(places_of(study), MANY) for path in place.settings}
    if any(_OTHER_JOBS.fullmatch(path) for path in paths):
        return
    jobs = [job.name for job in case.scenario.jobs]
    problems = []
    for index, name in enumerate(study.figures):
        entry = CATALOGUE.find(name)
        job = entry.names_in(name).get("JOB") if entry else None
        if job is not None and job not in jobs:
            what = f"the figure {name!r} is about the job {job!r}, which the scenario does not have"
            problems.append(
                Problem(what, source.place(("figures", index)), did_you_mean(job, jobs))
            )
    if problems:
        raise UserError(problems)
