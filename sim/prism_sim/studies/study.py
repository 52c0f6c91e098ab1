"""The model of a study: values of a scenario to vary, and figures to collect."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from llmprism.errors import Problem, UserError
from prism_sim.scenario.base import Closed
from prism_sim.scenario.source import Source
from prism_sim.scenario.words import did_you_mean
from prism_sim.studies.cases import CATALOGUE, SIMULATED_ONLY, TRUTH_FIGURES, RunCase
from prism_sim.studies.reading import known_methods, read_closed, scenario_at

Values = Annotated[tuple[Any, ...], Field(min_length=1)]


class Study(Closed):
    """A base scenario, a grid of changes to it, and the figures to collect at every point."""

    description: str = Field(default="", description="The question; title of the figure.")
    scenario: str = Field(description="The base: a file, relative to the study, or a bundled one.")
    set: dict[str, Any] = Field(
        default={}, description="Values by dotted path, set in the base before the grid."
    )
    grid: dict[str, Values] = Field(
        min_length=1, description="Dotted paths and the values each takes; all combinations."
    )
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1, description="Seeds of each point.")
    methods: tuple[str, ...] = Field(
        default=("paper",),
        min_length=1,
        description="Methods of diagnosis; none: the simulation alone.",
    )
    figures: tuple[str, ...] = Field(
        min_length=1,
        description="Figures to keep: paths in score.json, such as pairs.accuracy, or figures of "
        "the simulation, such as truth.step_s_mean.",
    )
    labels: dict[str, str] = Field(
        default={}, description="Labels in the picture of paths and figures, including units."
    )
    x_scale: Literal["linear", "log"] = Field(
        default="linear", description="Scale of the first path of the grid in the picture."
    )
    processes: int | None = Field(
        default=None, ge=1, description="Parallel runs. Left out: one per processor core."
    )


MANY = 10_000
"""A study of more runs than this needs a confirmation by the user."""


@dataclass(frozen=True)
class Point:
    """One run of a study.

    Attributes
    ----------
    at : the value of each path of the grid.
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
    known_figures(study, source)
    return study, source


def known_figures(study: Study, source: Source) -> None:
    """Refuse names of figures that no run can have, before anything runs.

    A study without a diagnosis has the figures of the simulation only.
    """
    scored = any(method != SIMULATED_ONLY for method in study.methods)
    catalogue = CATALOGUE if scored else TRUTH_FIGURES
    problems = [
        Problem(f"no run has a figure {name!r}", source.place(("figures", index)),
                did_you_mean(name, catalogue.paths()))
        for index, name in enumerate(study.figures)
        if catalogue.find(name) is None
    ]  # fmt: skip
    if problems:
        raise UserError(problems)


def runs_of(study: Study) -> int:
    """Number of runs of ``study``."""
    corners = math.prod(len(values) for values in study.grid.values())
    return corners * len(study.seeds) * len(study.methods)


def points_of(study: Study, source: Source) -> Iterator[Point]:
    """Every run of ``study``, in the order of the grid, one by one.

    A point of the grid where the scenario is invalid is a refused point.

    Raises
    ------
    UserError : at the end, if all points are invalid; with all problems, at the lines of the study.
    """
    problems: dict[Problem, None] = {}
    possible = False
    for values in itertools.product(*study.grid.values()):
        at = dict(zip(study.grid, values, strict=True))
        for seed, method in itertools.product(study.seeds, study.methods):
            try:
                case = _case(study, source, at, seed, method)
            except UserError as error:
                problems |= {} if possible else dict.fromkeys(error.problems)
                yield Point(at, seed, method, refused=str(error))
            else:
                possible = True
                yield Point(at, seed, method, case)
    if not possible:
        raise UserError(problems)


def _case(study: Study, source: Source, at: dict[str, Any], seed: int, method: str) -> RunCase:
    overrides = {**study.set, **at, "seed": seed}
    scenario = scenario_at(study.scenario, Path(source.file).parent, overrides, source, ())
    where = ", ".join(f"{path}={value}" for path, value in at.items())
    return RunCase(f"{where}, seed {seed}, {method}", scenario, method)
